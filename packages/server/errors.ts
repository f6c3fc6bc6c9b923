/** Why a server does not start or go on, or a command cannot be done. One line: what happened and what to do; no secrets. */
export class ServeError extends Error {
  override readonly name: string = 'ServeError';
}

/** A flag or environment variable that cannot be understood: wrong usage rather than a failure. */
export class ConfigError extends ServeError {
  override readonly name: string = 'ConfigError';
}

/** What a person named, such as an App, is not there. */
export class NotFoundError extends ServeError {
  override readonly name: string = 'NotFoundError';
}
