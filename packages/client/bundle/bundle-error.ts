/** Faults of a file that should be a bundle. */

/** Bytes that are no bundle this API can take. `message` says what, where, and what to do; it never holds a token. */
export class BundleError extends Error {
  override readonly name = 'BundleError';
}
