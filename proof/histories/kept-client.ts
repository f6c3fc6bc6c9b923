/** Requests of one Space over connections that stay open, each sent once: what a broken connection left unanswered is not known. */
import type { SpaceClient } from '../../test/support/space-client.ts';

interface Answer {
  readonly status: number;
  readonly body: string;
}

interface Asked {
  readonly text: string;
  resolve(answer: Answer): void;
  reject(error: Error): void;
}

const HEAD_END = '\r\n\r\n';

class Connection {
  readonly url: string;
  #socket: Bun.Socket | undefined;
  #asked: Asked | undefined;
  #received = '';
  #isClosed = false;

  constructor(url: string) {
    this.url = url;
    const { hostname, port } = new URL(url);
    const close = (): void => this.close('closed');
    Bun.connect({
      ...{ hostname, port: Number(port) },
      socket: {
        open: (socket) => {
          this.#socket = socket;
          this.#write();
        },
        data: (_socket, bytes) => this.#receive(bytes.toString('latin1')),
        close,
        error: close,
        connectError: close,
      },
    }).catch(close);
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** One at a time. Rejects if the connection breaks before the answer is whole. */
  ask(text: string): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#asked = { text, resolve, reject };
      if (this.#isClosed) this.close('closed');
      else this.#write();
    });
  }

  close(why: string): void {
    this.#isClosed = true;
    this.#socket?.end();
    this.#asked?.reject(new Error(why));
    this.#asked = undefined;
  }

  #write(): void {
    if (this.#socket === undefined || this.#asked === undefined) return;
    const { text } = this.#asked;
    if (this.#socket.write(text) !== text.length) this.close('a request is too long for one write');
  }

  #receive(text: string): void {
    this.#received += text;
    const head = this.#received.indexOf(HEAD_END);
    if (head < 0) return;
    const length = /\r\ncontent-length: (\d+)\r\n/i.exec(this.#received.slice(0, head + 2))?.[1];
    if (length === undefined) {
      this.close('an answer without a length');
      return;
    }
    const from = head + HEAD_END.length;
    if (this.#received.length < from + Number(length)) return;
    const [status, body] = [
      Number(this.#received.slice(9, 12)),
      this.#received.slice(from, from + Number(length)),
    ];
    this.#received = '';
    const asked = this.#asked;
    this.#asked = undefined;
    asked?.resolve({ status, body });
  }
}

/** `client` with these requests in place of its own. */
export function withKeptConnections(client: SpaceClient, token: string): SpaceClient {
  const idle: Connection[] = [];
  const ask = async (method: string, path: string, body?: unknown) => {
    const { origin, host, pathname } = new URL(client.spaceUrl);
    let connection = idle.pop();
    while (connection !== undefined && (connection.isClosed || connection.url !== origin))
      connection = idle.pop();
    connection ??= new Connection(origin);
    const sent = body === undefined ? '' : JSON.stringify(body);
    const about =
      body === undefined ? '' : `content-type: application/json\r\ncontent-length: ${sent.length}\r\n`;
    const head = `${method} ${pathname}${path} HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${token}\r\n`;
    const answer = await connection.ask(`${head}${about}\r\n${sent}`);
    idle.push(connection);
    return { status: answer.status, json: JSON.parse(answer.body) };
  };
  return {
    ...client,
    get spaceUrl() {
      return client.spaceUrl;
    },
    lease: (hash, leaseDurationMs) => ask('POST', `/cas/nodes/${hash}/lease`, { leaseDurationMs }),
    commit: (requestId, changes) => ask('POST', '/root-refs', { requestId, changes }),
    roots: (query = '') => ask('GET', `/root-refs${query}`),
  };
}
