/** The rows of a data folder, apart from the engine: whether they are there is asked before it is loaded. */
export const ROWS_FILE = 'holdfast.db';
