import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { programFile } from '../../protocol/programs.ts'
import { withHome } from '../support/home.ts'
import { startChild } from './harness.ts'

test('mcp-tools.json is what the child answers, and no daemon is needed for it', () =>
  withHome(async (home) => {
    const child = await startChild(home)
    try {
      const written = JSON.parse(readFileSync(join(dirname(programFile('roomd')), 'mcp-tools.json'), 'utf8'))
      const { tools } = await child.client.listTools()
      expect(written.tools).toEqual(JSON.parse(JSON.stringify(tools)))
      expect(written.serverInfo).toEqual(child.client.getServerVersion())
      expect(written.capabilities).toEqual(child.client.getServerCapabilities())
      expect(written.instructions).toBe(child.client.getInstructions())
    } finally {
      await child.close()
    }
  }))

test('every tool has title, annotations, input and output schema, and takes no unknown arguments', () =>
  withHome(async (home) => {
    const child = await startChild(home)
    try {
      expect(child.tools.map((tool) => tool.name)).toEqual([
        'list_active_notebooks',
        'list_notebooks',
        'connect_notebook',
        'create_notebook',
        'disconnect_notebook',
        'save_notebook',
        'show_notebook',
        'get_cell',
        'get_all_cells',
        'create_cell',
        'set_cell',
        'delete_cell',
        'move_cell',
        'replace_match',
        'replace_regex',
        'clear_outputs',
        'set_cell_metadata',
        'execute_cell',
        'run_all_cells',
        'get_results',
        'list_executions',
        'cancel_execution',
        'send_input',
        'interrupt_kernel',
        'restart_kernel',
        'inspect',
        'complete',
        'get_source_status',
        'reconcile_source',
        'list_projects',
        'claim_room',
        'pool_status',
        'session_create',
        'session_accumulate',
        'session_finalize',
        'session_save',
        'session_load',
        'session_list',
        'session_archive',
        'session_unarchive',
        'session_query',
        'session_link',
        'session_tag',
        'session_untag',
        'session_get_context',
        'session_search_tags',
        'session_add_work_item',
        'session_complete_work_item',
        'session_get_work_items',
        'daemon_status',
        'reconnect',
      ])
      for (const tool of child.tools) {
        expect(tool.title, tool.name).toBeTruthy()
        expect(Object.keys(tool.annotations ?? {}).sort()).toEqual(
          ['destructiveHint', 'idempotentHint', 'openWorldHint', 'readOnlyHint', 'title'].sort(),
        )
        expect(tool.inputSchema.additionalProperties, tool.name).toBe(false)
        expect(tool.outputSchema?.type, tool.name).toBe('object')
      }
    } finally {
      await child.close()
    }
  }))
