/** The tree kept changing. `message` is one line that names where. */
export class TreeBusyError extends Error {
  override readonly name = 'TreeBusyError';
}
