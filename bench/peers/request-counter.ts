/** A TCP proxy in front of an S3 store that counts requests and what is sent to it. */
import { connect, createServer } from 'node:net';

export interface RequestCounter {
  readonly port: number;
  /** since it started */
  readonly requests: number;
  /** bytes that went to the store, heads included */
  readonly sentBytes: number;
  close(): Promise<void>;
}

/** Requests follow one another on a connection, so each begins a chunk. */
const REQUEST_LINE = /^(?:GET|HEAD|PUT|POST|DELETE) \/\S* HTTP\/1\.1\r\n/;
const LINE_CHARACTERS_MAX = 8192;

export async function startRequestCounter(targetPort: number): Promise<RequestCounter> {
  let requests = 0;
  let sentBytes = 0;
  const server = createServer({ noDelay: true }, (client) => {
    const store = connect({ host: '127.0.0.1', port: targetPort, noDelay: true });
    client.on('data', (chunk: Buffer) => {
      sentBytes += chunk.length;
      if (REQUEST_LINE.test(chunk.toString('latin1', 0, LINE_CHARACTERS_MAX))) requests += 1;
    });
    for (const [one, other] of [
      [client, store],
      [store, client],
    ] as const) {
      one.pipe(other);
      one.on('error', () => other.destroy());
      one.on('close', () => other.destroy());
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('The counter has no port.');
  return {
    port: address.port,
    get requests() {
      return requests;
    },
    get sentBytes() {
      return sentBytes;
    },
    close: () => new Promise((resolve) => server.close(() => resolve())),
  };
}
