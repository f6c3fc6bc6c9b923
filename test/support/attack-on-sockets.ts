/**
 * An attack on raw connections, run by startAttack: each sends one request, whole or unfinished, and reads its answer slowly or not
 * at all. Prints the count of each status so far, a JSON line each second.
 */
import { createConnection } from 'node:net';

export interface SocketAttack {
  readonly port: number;
  readonly connections: number;
  /** heads, taken in turns; `$AUTHORIZATION` in them is replaced */
  readonly requests: readonly string[];
  readonly authorization?: string;
  /** bytes of a body that are sent at once after the head */
  readonly bodyBytes?: number;
  /** the body is a JSON string of escapes, which takes most work of all; without it, blanks */
  readonly escapes?: boolean;
  /** ms between further single bytes; 0: none */
  readonly dripMs?: number;
  /** stops reading after the first bytes of the answer */
  readonly stalls?: boolean;
  /** opens another connection for each that ends */
  readonly again?: boolean;
}

const REPORT_MS = 1000;
const AGAIN_MS = 100;
const STATUS_AT = 'HTTP/1.1 '.length;

const attack = JSON.parse(process.argv[2] ?? '{}') as SocketAttack;
const { port, connections, requests, bodyBytes = 0, dripMs = 0 } = attack;
const { stalls = false, again = false, escapes = false } = attack;
const statuses: Record<string, number> = {};
const body = escapes ? Buffer.from(`"${'\\n'.repeat(bodyBytes / 2 - 1)}"`) : Buffer.alloc(bodyBytes, ' ');
let opened = 0;

function open(): void {
  const socket = createConnection({ port, host: '127.0.0.1' });
  let drip: ReturnType<typeof setInterval> | undefined;
  let isAnswered = false;
  socket.on('connect', () => {
    const request = requests[opened % requests.length] as string;
    socket.write(request.replace('$AUTHORIZATION', attack.authorization ?? ''));
    opened += 1;
    socket.write(body);
    if (dripMs > 0) drip = setInterval(() => socket.write(' '), dripMs);
  });
  socket.on('data', (chunk: Buffer) => {
    if (isAnswered) return;
    isAnswered = true;
    const status = chunk.toString('latin1', STATUS_AT, STATUS_AT + 3);
    statuses[status] = (statuses[status] ?? 0) + 1;
    if (stalls && status.startsWith('2')) socket.pause();
    // A refused connection tries again, as attackers do.
    else if (again) socket.destroy();
  });
  socket.on('error', () => undefined);
  socket.on('close', () => {
    clearInterval(drip);
    if (again) setTimeout(open, AGAIN_MS);
  });
}

for (let count = 0; count < connections; count += 1) open();
setInterval(() => console.log(JSON.stringify(statuses)), REPORT_MS);
