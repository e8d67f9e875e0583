/**
 * The official SDK's client for tests. What a tool answers is checked against its output schema as ever, but a schema is compiled when
 * its tool first answers and once in a file: the SDK compiles those of all tools whenever they are listed, which takes a second.
 */
import { Client, type ClientOptions } from '@modelcontextprotocol/sdk/client/index.js'
import type { Implementation } from '@modelcontextprotocol/sdk/types.js'
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv'
import type {
  JsonSchemaType,
  JsonSchemaValidator,
  jsonSchemaValidator,
} from '@modelcontextprotocol/sdk/validation/types.js'

const validator = new AjvJsonSchemaValidator()
const compiled = new Map<string, JsonSchemaValidator<unknown>>()

const whenAsked: jsonSchemaValidator = {
  getValidator: <T>(schema: JsonSchemaType) => {
    const key = JSON.stringify(schema)
    return ((input) => {
      const validate = compiled.get(key) ?? validator.getValidator(schema)
      compiled.set(key, validate)
      return validate(input)
    }) as JsonSchemaValidator<T>
  },
}

export function mcpClient(implementation: Implementation, options: ClientOptions = {}): Client {
  return new Client(implementation, { ...options, jsonSchemaValidator: whenAsked })
}
