/** An answer as lines of JSON: `progress`, then a last line `output` or `problem`. Empty lines keep the connection open. */
import { AnswerRefused, parseAnswer, readLines } from './answer-bounds.ts';
import { type Problem, problemOf } from './problem.ts';

export const LINES_MEDIA_TYPE = 'application/jsonl';

export type AnswerLine =
  | { readonly progress: string }
  | { readonly output: unknown }
  | { readonly problem: Problem };

export function wantsLines(request: Request): boolean {
  return request.headers.get('accept')?.includes(LINES_MEDIA_TYPE) ?? false;
}

/** Responds before the work is done; the last line reports a failure. */
export function answerInLines(
  work: (report: (progress: string) => void) => Promise<unknown>,
  headers: Readonly<Record<string, string>>,
): Response {
  const encoder = new TextEncoder();
  let isGone = false;
  const stream = new ReadableStream<Uint8Array>({
    start: async (controller) => {
      let latest: string | undefined;
      const write = (text: string): void => {
        if (!isGone) controller.enqueue(encoder.encode(`${text}\n`));
      };
      const send = (line: AnswerLine): void => write(JSON.stringify(line));
      const timer = setInterval(() => {
        if (latest === undefined) write('');
        else send({ progress: latest });
        latest = undefined;
      }, 2_000);
      try {
        send({
          output: await work((progress) => {
            latest = progress;
          }),
        });
      } catch (error) {
        send({ problem: problemOf(error) });
      } finally {
        clearInterval(timer);
        if (!isGone) controller.close();
      }
    },
    cancel: () => {
      isGone = true;
    },
  });
  return new Response(stream, { headers: { 'content-type': LINES_MEDIA_TYPE, ...headers } });
}

const NOTHING: AsyncIterable<Uint8Array> = new ReadableStream<Uint8Array>({
  start: (controller) => controller.close(),
});

/** Reads such an answer and returns its last line. Rejects if the answer ends early. */
export async function readAnswerLines(
  body: AsyncIterable<Uint8Array> | null,
  onProgress: (progress: string) => void,
): Promise<Exclude<AnswerLine, { readonly progress: string }>> {
  for await (const text of readLines(body ?? NOTHING)) {
    const line = parseLine(text);
    if (!('progress' in line)) return line;
    onProgress(line.progress);
  }
  throw new Error('the answer ended early');
}

function parseLine(text: string): AnswerLine {
  const line = parseAnswer(text);
  if (typeof line === 'object' && line !== null) {
    if ('progress' in line && typeof line.progress === 'string') return { progress: line.progress };
    if ('output' in line) return { output: line.output };
    if ('problem' in line && typeof line.problem === 'object' && line.problem !== null)
      return line as AnswerLine;
  }
  throw new AnswerRefused('a line of the answer is none that this API gives');
}
