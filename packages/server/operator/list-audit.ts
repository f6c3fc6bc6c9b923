/** The newest lines of the audit log, from memory. */
import { integer, optional } from './fields.ts';
import { operation } from './operation.ts';
import { listOf } from './schemas.ts';

const LINES_DEFAULT = 100;

export const listAudit = operation({
  method: 'GET',
  path: 'audit',
  right: 'read',
  summary:
    'List the newest lines of the audit log that the processes of this server have written, the newest first',
  input: {
    limit: optional(integer(`At most so many; left out: ${LINES_DEFAULT}.`, { min: 1, max: 1000 })),
  },
  output: {
    type: 'object',
    required: ['enabled', 'lines'],
    properties: {
      enabled: { type: 'boolean', description: 'Whether the server keeps an audit log.' },
      lines: listOf({ type: 'object' }, 'As they are in the log.'),
    },
    additionalProperties: false,
  },
  run: async ({ live }, { limit = LINES_DEFAULT }) => {
    return { enabled: live?.audit !== undefined, lines: (await live?.readAudit(limit)) ?? [] };
  },
});
