/** A TCP proxy in front of an object store that never answers requests for the objects of some Spaces. */
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export interface HangingBucket {
  /** what servers are to use as the endpoint */
  readonly endpoint: string;
  /** requests that hang right now */
  readonly hanging: number;
  /** From now on reads of keys that contain one of these are taken and never answered. */
  hang(...parts: readonly string[]): void;
  close(): Promise<void>;
}

export async function startHangingBucket(target: string): Promise<HangingBucket> {
  const { hostname, port } = new URL(target);
  const sockets = new Set<Socket>();
  const hanging = new Set<Socket>();
  let parts: readonly string[] = [];
  const isToHang = (chunk: Buffer): boolean => {
    // The head of a request is sent in one piece.
    const line = chunk.subarray(0, chunk.indexOf('\r\n')).toString('latin1');
    return line.startsWith('GET ') && parts.some((part) => line.includes(part));
  };
  const server = createServer({ noDelay: true }, (client) => {
    const upstream = connect({ host: hostname, port: Number(port), noDelay: true });
    client.on('data', (chunk: Buffer) => {
      if (isToHang(chunk)) hanging.add(client);
      if (!hanging.has(client)) upstream.write(chunk);
    });
    upstream.on('data', (chunk: Buffer) => client.write(chunk));
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        sockets.delete(socket);
        hanging.delete(socket);
        other.destroy();
      });
    }
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  return {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get hanging() {
      return hanging.size;
    },
    hang(...given) {
      parts = given;
    },
    close() {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => void server.close(() => resolve()));
    },
  };
}
