/** What the kernel tells about itself (`kernel_info_reply`). */
import { type Json, protocolVersion } from './wire.ts'

export const kernelVersion = '0.1.0'

export function kernelInfo(): Json {
  return {
    status: 'ok',
    protocol_version: protocolVersion,
    implementation: 'roomd-javascript',
    implementation_version: kernelVersion,
    language_info: {
      name: 'javascript',
      version: process.versions.node,
      mimetype: 'text/javascript',
      file_extension: '.js',
      pygments_lexer: 'javascript',
      codemirror_mode: 'javascript',
      nbconvert_exporter: 'script',
    },
    banner: `JavaScript and TypeScript in Node ${process.versions.node} (roomd ${kernelVersion})`,
    debugger: false,
    supported_features: [],
    help_links: [
      { text: 'JavaScript', url: 'https://developer.mozilla.org/docs/Web/JavaScript' },
      {
        text: 'Node.js',
        url: `https://nodejs.org/docs/latest-v${process.versions.node.split('.')[0]}.x/api/`,
      },
      { text: 'TypeScript', url: 'https://www.typescriptlang.org/docs/' },
    ],
  }
}
