/** A hostile server: a body of a few KiB that stands for gigabytes of zeros once it is unpacked (`Content-Encoding: br`). */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

const PIECE_BYTES = 16 * 1024 * 1024;
/** The output of a brotli compressor for 16 MiB of zeros: the first piece, each further piece, and the end. */
const FIRST = Buffer.from('cfffff7f002400e2b14072efff0d', 'hex');
const FURTHER = Buffer.from('fcffff074002200e0b40f7fedf00', 'hex');
const END = Buffer.from('03', 'hex');
/** The body comes by itself: a runtime may unpack it in one go, as it does not with one that came with the head. */
const BODY_AFTER_MS = 50;

export interface BombServer {
  readonly url: string;
  /** requests so far */
  count(): number;
  stop(): void;
}

/** Answers every request with `status` and a body that unpacks to `bytes`. */
export async function startBombServer(bytes: number, status = 200): Promise<BombServer> {
  const body = packedBomb(bytes);
  let count = 0;
  const server = createServer((request, response) => {
    count += 1;
    request.resume();
    response.writeHead(status, { 'content-encoding': 'br', 'content-type': 'application/json' });
    response.flushHeaders();
    setTimeout(() => response.end(body), BODY_AFTER_MS);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    count: () => count,
    stop: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

function packedBomb(bytes: number): Buffer {
  const pieces = Math.ceil(bytes / PIECE_BYTES);
  return Buffer.concat([FIRST, ...Array.from({ length: pieces - 1 }, () => FURTHER), END]);
}
