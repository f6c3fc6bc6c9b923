/** One JSON-RPC message a line over stdin and stdout. Unlike the MCP SDK's it answers when stdin ends, refuses long lines, and waits. */
import { findJson } from '@holdfast/protocol';
import { type JSONRPCMessage, parseJSONRPCMessage, type Transport } from '@modelcontextprotocol/server';

/** As the transports of the MCP SDK have it. */
const LINE_BYTES_MAX = 10 * 1024 * 1024;

const PARSE_ERROR = -32_700;
const INVALID_REQUEST = -32_600;

export class StdioLines implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #open = new Set<unknown>();
  readonly #ended = Promise.withResolvers<undefined>();
  #onAnswered = (): void => undefined;
  #isStopped = false;

  /** stdin has ended. */
  get ended(): Promise<undefined> {
    return this.#ended.promise;
  }

  async start(): Promise<void> {
    const end = (): void => this.#ended.resolve(undefined);
    void this.#read().then(end, end);
  }

  /** Nothing more is taken from stdin; settles once all that was taken is answered. */
  async finish(): Promise<void> {
    this.#isStopped = true;
    await this.#untilOpen(0);
  }

  async send(message: JSONRPCMessage): Promise<void> {
    await new Promise<void>((resolve) =>
      process.stdout.write(`${JSON.stringify(message)}\n`, () => resolve()),
    );
    if (!('method' in message) && 'id' in message) this.#close(message.id);
  }

  async close(): Promise<void> {
    this.#isStopped = true;
    this.onclose?.();
  }

  #close(id: unknown): void {
    this.#open.delete(id);
    this.#onAnswered();
  }

  async #untilOpen(most: number): Promise<void> {
    while (this.#open.size > most) {
      await new Promise<void>((resolve) => {
        this.#onAnswered = resolve;
      });
    }
  }

  async #read(): Promise<void> {
    let line: Uint8Array[] = [];
    let bytes = 0;
    let isAlone = false;
    for await (const chunk of process.stdin as AsyncIterable<Uint8Array>) {
      for (let start = 0; start < chunk.length; ) {
        const at = chunk.indexOf(0x0a, start); // a line feed
        const piece = chunk.subarray(start, at === -1 ? chunk.length : at);
        bytes += piece.length;
        // A larger line stays in the pipe until it is alone, so that memory stays bounded.
        if (bytes > 256 * 1024 && !isAlone) {
          await this.#untilOpen(0);
          // Free the garbage of the last call before this one takes memory.
          Bun.gc(true);
          isAlone = true;
        }
        if (bytes > LINE_BYTES_MAX) line = [];
        else line.push(piece);
        start += piece.length + 1;
        if (at === -1) continue;
        await this.#take(bytes, line);
        [line, bytes, isAlone] = [[], 0, false];
      }
      if (this.#isStopped) return;
    }
    await this.#take(bytes, line);
  }

  async #take(bytes: number, line: readonly Uint8Array[]): Promise<void> {
    if (bytes > LINE_BYTES_MAX) {
      const most = `${LINE_BYTES_MAX} bytes at most`;
      return this.#refuse(INVALID_REQUEST, `a line has ${bytes} bytes; ${most} are taken: send less a call`);
    }
    // Eight requests are answered at a time; further ones stay in the pipe.
    await this.#untilOpen(7);
    if (this.#isStopped) return;
    const text = Buffer.concat(line).toString().trim();
    if (text !== '') await this.#receive(text);
  }

  async #receive(text: string): Promise<void> {
    const value = findJson(text);
    if (value === undefined)
      return this.#refuse(PARSE_ERROR, 'a line is no JSON: each line is one JSON-RPC message');
    let message: JSONRPCMessage;
    try {
      message = parseJSONRPCMessage(value);
    } catch {
      const { id } = Object(value) as { id?: unknown };
      const isId = typeof id === 'string' || typeof id === 'number';
      return this.#refuse(INVALID_REQUEST, 'a line is no JSON-RPC 2.0 message', isId ? id : null);
    }
    if ('method' in message && 'id' in message) this.#open.add(message.id);
    this.onmessage?.(message);
    // The SDK answers no request that was taken back.
    if ('method' in message && message.method === 'notifications/cancelled')
      this.#close(message.params?.requestId);
  }

  async #refuse(code: number, message: string, id: string | number | null = null): Promise<void> {
    await this.send({ jsonrpc: '2.0', id, error: { code, message } } as JSONRPCMessage);
  }
}
