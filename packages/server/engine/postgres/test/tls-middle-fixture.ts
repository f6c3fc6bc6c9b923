/** One in the middle: it speaks TLS with a certificate of its own, and passes on what it reads to the real server, over TLS again. */
import { connect, createServer, type Socket } from 'node:net';
import { connect as connectTls, createServer as createTlsServer } from 'node:tls';
import type { ServerCertificate } from '../../../../../test/support/certificates.ts';
import { MessageWriter } from '../wire/wire-messages.ts';

const quiet = (socket: Socket): Socket => socket.on('error', () => socket.destroy());

export async function startTlsMiddle(
  { certificate, key }: ServerCertificate,
  serverPort: number,
): Promise<{ readonly port: number; close(): void }> {
  const request = new MessageWriter().sslRequest().take();
  const inner = createTlsServer({ cert: certificate, key }, (client) => {
    quiet(client);
    const plain = quiet(connect(serverPort, '127.0.0.1'));
    plain.write(request);
    plain.once('data', () => {
      const server = quiet(connectTls({ socket: plain, rejectUnauthorized: false }));
      client.pipe(server).pipe(client);
    });
  });
  await new Promise<void>((resolve) => inner.listen(0, '127.0.0.1', () => resolve()));
  const innerPort = (inner.address() as { port: number }).port;
  const outer = createServer((client) => {
    quiet(client);
    client.once('data', () => {
      client.pause();
      const behind = quiet(connect(innerPort, '127.0.0.1'));
      behind.once('connect', () => {
        client.write('S');
        client.pipe(behind).pipe(client);
      });
    });
  });
  await new Promise<void>((resolve) => outer.listen(0, '127.0.0.1', () => resolve()));
  return {
    port: (outer.address() as { port: number }).port,
    close() {
      outer.close();
      inner.close();
    },
  };
}
