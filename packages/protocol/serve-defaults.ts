/** What `serve`, and every command that works beside it, takes when nothing is said. */

export const LISTEN_DEFAULT = '127.0.0.1:8420';
/** Data folder of the embedded engine. */
export const DATA_DIR_DEFAULT = './holdfast-data';
