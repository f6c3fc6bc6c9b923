/** Operations that back up a server's data folder remotely and report progress. */
import { isAbsolute } from 'node:path';
import { readLastBackup } from '../backup/last-backup.ts';
import { type Field, text } from './fields.ts';
import type { FolderBackups } from './folder-backups.ts';
import { type OperationCall, operation } from './operation.ts';
import { OperatorError } from './problem.ts';
import { COUNT, orNull, record, TEXT, TIMESTAMP } from './schemas.ts';

const PATH = text('The folder of the backup on the machine of the server, as an absolute path.', 4096);

const ABSOLUTE_PATH: Field<string> = {
  ...PATH,
  parse: (value, refuse) => {
    const path = PATH.parse(value, refuse);
    return isAbsolute(path) && !path.includes('\0') ? path : refuse('must be an absolute path');
  },
};

export const getBackup = operation({
  method: 'GET',
  path: 'backup',
  right: 'backup',
  summary: 'Say whether a backup is being made, and when the last one succeeded',
  input: {},
  output: record({
    running: orNull(record({ folder: TEXT, startedAt: TIMESTAMP, progress: TEXT })),
    lastSuccessAt: orNull(TIMESTAMP),
  }),
  run: async (call) => {
    const backups = backupsOf(call);
    const { running, dataDir } = backups;
    return {
      running: running === undefined ? null : { ...running },
      lastSuccessAt: readLastBackup(dataDir) || null,
    };
  },
});

export const backUp = operation({
  method: 'POST',
  path: 'backup',
  right: 'backup',
  summary: 'Back up the data folder into a folder of the same machine; answers when the backup is made',
  input: { folder: ABSOLUTE_PATH },
  output: record({ nodes: COUNT, bytes: COUNT, copiedBytes: COUNT, ms: COUNT }),
  // The backup continues if the caller disconnects. getBackup reports its progress, and a second backUp is refused meanwhile.
  run: async (call, { folder }) => backupsOf(call).run(folder),
});

function backupsOf({ live }: OperationCall): FolderBackups {
  if (live?.backups !== undefined) return live.backups;
  throw new OperatorError(
    'CONFLICT',
    live === undefined
      ? 'no server runs: use holdfast backup'
      : 'the rows are in PostgreSQL: back the database up by its own means, and the bucket as docs/operations.md says',
  );
}
