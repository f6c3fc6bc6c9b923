/** Errors in words: what happened and what to do. */

/** The server's answer to a call that it refused, or that it could not do. */
export class OperatorError extends Error {
  override readonly name = 'OperatorError';
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

const SPACE_ADVICE: Readonly<Record<string, string>> = {
  UNAUTHORIZED:
    'The token was refused. It may have ended or been revoked: sign in to the Space with a new one.',
  FORBIDDEN: 'The token does not permit this. Sign in to the Space with a token that has the permission.',
  NOT_FOUND: 'It is not in this Space (any more). Check the hash and the Space.',
  RESOURCE_EXHAUSTED: 'The server is busy, or a quota is used up. Wait a moment and try again.',
  CONNECTION_FAILED:
    'The Space API could not be reached. Check that the server runs, that its address is right, and that it allows this page (HOLDFAST_CORS_ORIGINS).',
  TIMED_OUT: 'The server took too long to answer. Try again.',
};

export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { code, reason } = error as { readonly code?: unknown; readonly reason?: unknown };
  const advice = typeof code === 'string' ? SPACE_ADVICE[code] : undefined;
  const message = typeof reason === 'string' ? reason : error.message;
  if (advice === undefined) return sentence(message);
  return code === 'CONNECTION_FAILED' || code === 'UNAUTHORIZED' ? advice : `${sentence(message)} ${advice}`;
}

function sentence(text: string): string {
  const trimmed = text.trim();
  const begun = trimmed.charAt(0).toUpperCase() + trimmed.slice(1);
  return /[.!?…]$/.test(begun) ? begun : `${begun}.`;
}
