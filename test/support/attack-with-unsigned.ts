/** An attack: requests on many connections whose tokens nobody signed, again and again. Started by attack.ts. */

interface Settings {
  readonly hostname: string;
  readonly port: number;
  readonly path: string;
  readonly token: string;
  readonly connections: number;
}

const { hostname, port, path, token, connections }: Settings = JSON.parse(process.argv[2] ?? '');
const counts: Record<string, number> = {};
/** between the answer and the next request of a connection, ms */
const PAUSE_MS = 10_000;

function send(socket: { write(text: string): number }): void {
  socket.write(`GET ${path} HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: Bearer ${token}\r\n\r\n`);
}

async function attack(): Promise<void> {
  await Bun.connect({
    hostname,
    port,
    socket: {
      open: send,
      data(socket, data) {
        const status = /^HTTP\/1\.1 (\d+)/.exec(data.toString('latin1'))?.[1];
        if (status === undefined) return;
        counts[status] = (counts[status] ?? 0) + 1;
        setTimeout(() => send(socket), PAUSE_MS);
      },
    },
  });
}

for (let count = 0; count < connections; count += 1) await attack();
console.log(JSON.stringify({ connections }));
setInterval(() => console.log(JSON.stringify(counts)), 200);

export {};
