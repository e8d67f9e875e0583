/** The program's version (kept equal to package.json by a test) and the versions it speaks. */
export const VERSION = '0.1.0'
/** Grows with every addition to methods or events that a client may want to ask for. */
export const API_VERSION = 1
/** Lowest and highest protocol version of the preamble. */
export const PROTOCOL_LOWEST = 1
export const PROTOCOL_HIGHEST = 1
