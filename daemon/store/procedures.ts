/**
 * The table of procedures: what the writer thread can be asked to do inside its transaction (see `Store.transact`). A procedure
 * reads and writes through what it is given, checks everything before its first write, and returns plain data.
 */
import { ledgerProcedures } from '../ledger/procedures.ts'
import { writeShared } from './packed-rows.ts'

export const procedures = { ...ledgerProcedures, write_shared: writeShared }

export type ProcedureName = keyof typeof procedures
export type ProcedureInput<Name extends ProcedureName> = Parameters<(typeof procedures)[Name]>[1]
export type ProcedureResult<Name extends ProcedureName> = ReturnType<(typeof procedures)[Name]>
