/** The bucket cannot be used, or not safely. One line: what it does wrong and what to do. */
export class S3StoreRefused extends Error {
  override readonly name = 'S3StoreRefused';
}
