/** A Unix socket in the data folder, over which commands call its server. It gives all rights, so only the owner can open it. */

import { chmodSync, closeSync, constants, fstatSync, lstatSync, openSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { PRIVATE_FILE_MODE } from '@holdfast/protocol';
import { codeOf } from '../error-code.ts';
import { ServeError } from '../errors.ts';

const CHANNEL_NAME = 'operator.sock';

/** A path short enough to bind or connect the socket, however deep the folder is. */
export interface SocketPath {
  readonly path: string;
  /** The path is invalid afterwards. */
  close(): void;
}

/** Throws the system's error if the folder cannot be opened. */
function openSocketPath(dataDir: string): SocketPath {
  const plain = join(dataDir, CHANNEL_NAME);
  // A socket address has 108 bytes including the final NUL.
  if (Buffer.byteLength(plain) <= 107) return { path: plain, close: () => undefined };
  // The system resolves this short path to the open folder.
  const folder = openSync(dataDir, constants.O_RDONLY | constants.O_DIRECTORY);
  return { path: `/proc/self/fd/${folder}/${CHANNEL_NAME}`, close: () => closeSync(folder) };
}

export interface Channel {
  pending(): number;
  close(): Promise<void>;
}

/** Serves `answer` on the channel. The caller holds the folder, so an existing socket is stale. @throws ServeError */
export function openChannel(
  dataDir: string,
  answer: (request: Request, url: URL) => Promise<Response>,
): Channel {
  removeLeftover(dataDir);
  const socket = openSocketPath(dataDir);
  try {
    const server = Bun.serve({
      unix: socket.path,
      development: false,
      fetch: (request, connections) => {
        // Long work, such as a check, sends nothing meanwhile.
        connections.timeout(request, 0);
        return answer(request, new URL(request.url));
      },
    });
    chmodSync(join(dataDir, CHANNEL_NAME), PRIVATE_FILE_MODE);
    return {
      pending: () => server.pendingRequests,
      close: async () => {
        await server.stop(true);
        socket.close();
      },
    };
  } catch (error) {
    socket.close();
    throw new ServeError(
      `the operators' channel ${join(dataDir, CHANNEL_NAME)} cannot be made (${codeOf(error) ?? String(error)}): the data folder must be on a file system that supports sockets`,
      { cause: error },
    );
  }
}

function removeLeftover(dataDir: string): void {
  const path = join(dataDir, CHANNEL_NAME);
  const found = findSocket(path);
  if (found === undefined) return;
  if (!found) {
    throw new ServeError(
      `${path} is not a socket of this user: it is the place of the operators' channel, so remove it and start again`,
    );
  }
  unlinkSync(path);
}

/** Whether the file is a socket of this user; undefined if absent. */
function findSocket(path: string): boolean | undefined {
  const there = lstatSync(path, { throwIfNoEntry: false });
  return there?.isSocket() && there.uid === process.geteuid?.();
}

/** The channel's socket; undefined if absent. @throws ServeError if the file there is not trusted */
export function findChannel(dataDir: string): SocketPath | undefined {
  const path = join(dataDir, CHANNEL_NAME);
  let there: ReturnType<typeof lstatSync>;
  try {
    there = lstatSync(path);
  } catch (error) {
    const code = codeOf(error);
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw new ServeError(
      `the operators' channel ${path} cannot be reached (${code}): run the command as the user that serves`,
    );
  }
  const folder = openSync(dataDir, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    // Root may call any server; other users only their own.
    const isTrusted = there.isSocket() && there.uid === fstatSync(folder).uid;
    if (!isTrusted) {
      throw new ServeError(
        `${path} is not a socket of the folder's owner, so no command is sent there: remove it and start the server again`,
      );
    }
  } finally {
    closeSync(folder);
  }
  return openSocketPath(dataDir);
}
