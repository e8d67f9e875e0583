/** Words for arguments that mean the same in all tools of the ledger. */
export const sessionId = 'Id of the session, as session_create or session_list gives it.'
export const project = 'Name of the project: one name, not a path.'
export const includeArchived = 'Also sessions that were archived.'
export const idempotencyKey =
  'A text of your own for this call: made again with the same text, it takes effect once and gives the first answer.'
export const expectRev =
  'Refuse with CONFLICT unless the session is at this rev, as the last answer told. Default: no check.'
export const commaTags = 'Tags, separated by commas. Upper and lower case are the same tag.'
