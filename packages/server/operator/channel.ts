/**
 * The channel of a data folder: a Unix socket in it, by which commands ask the server that holds the folder. Whoever may open
 * the socket may do what the owner of the folder may; so only its owner can.
 */

import { chmodSync, closeSync, constants, fstatSync, lstatSync, openSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { PRIVATE_FILE_MODE } from '@holdfast/protocol';
import { codeOf } from '../error-code.ts';
import { ServeError } from '../errors.ts';

const CHANNEL_NAME = 'operator.sock';

/** A path by which the socket can be bound or reached, however deep the folder lies. */
export interface SocketPath {
  readonly path: string;
  /** Afterwards the path may lead nowhere. */
  close(): void;
}

/** Throws the error of the system if the folder cannot be opened. */
function openSocketPath(dataDir: string): SocketPath {
  const plain = join(dataDir, CHANNEL_NAME);
  // The system takes 108 bytes as the address of a socket, with the one that ends it.
  if (Buffer.byteLength(plain) <= 107) return { path: plain, close: () => undefined };
  // The system resolves this short path to the folder that is open.
  const folder = openSync(dataDir, constants.O_RDONLY | constants.O_DIRECTORY);
  return { path: `/proc/self/fd/${folder}/${CHANNEL_NAME}`, close: () => closeSync(folder) };
}

export interface Channel {
  /** requests under way */
  pending(): number;
  close(): Promise<void>;
}

/**
 * Serves `answer` on the channel. The caller holds the folder, so a socket that is there was left behind by a process that was
 * killed. Throws ServeError.
 */
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
        // Work such as a check may take long and sends nothing meanwhile.
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

/** Whether there is a socket that this user has made; undefined: nothing is there. */
function findSocket(path: string): boolean | undefined {
  const there = lstatSync(path, { throwIfNoEntry: false });
  return there?.isSocket() && there.uid === process.geteuid?.();
}

/** Throws ServeError if what lies at the channel's place is not to be trusted. Undefined: nothing lies there. */
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
    // root may ask any server; anyone else only his own.
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
