/** One HTTP answer, read to its end, and the request it belongs to in a form that is safe to print. */

const TEXT_SHOWN_CHARACTERS_MAX = 400;

export interface Answer {
  /** `METHOD path`, without secrets. */
  readonly request: string;
  readonly status: number;
  readonly headers: Headers;
  readonly bytes: Uint8Array;
}

/** Hides what could be used: JWTs, signed upload paths, signatures in queries. */
export function redact(text: string): string {
  return text
    .replace(/\beyJ[\w-]{5,}\.[\w-]*\.?[\w-]*/g, '<token>')
    .replace(/(\/uploads\/)[^\s"'?#]+/g, '$1<signed>')
    .replace(/\?[^\s"']*(?:X-Amz-|Signature)[^\s"']*/gi, '?<signed>');
}

export const sayBytes = (count: number): string => (count === 1 ? '1 byte' : `${count} bytes`);

/** The body as text, shortened and redacted. */
export function describeBody(answer: Answer): string {
  if (answer.bytes.length === 0) return '(empty)';
  const type = answer.headers.get('content-type') ?? '';
  const looksLikeText = /json|text|xml/.test(type);
  if (!looksLikeText) return `(${sayBytes(answer.bytes.length)} of ${type || 'no content type'})`;
  const text = redact(new TextDecoder().decode(answer.bytes.subarray(0, TEXT_SHOWN_CHARACTERS_MAX * 4)));
  return text.length <= TEXT_SHOWN_CHARACTERS_MAX ? text : `${text.slice(0, TEXT_SHOWN_CHARACTERS_MAX)}…`;
}

/** Every header, one per line. */
export function describeHeaders(answer: Answer): string[] {
  return [...answer.headers].map(([name, value]) => `${name}: ${redact(value)}`);
}
