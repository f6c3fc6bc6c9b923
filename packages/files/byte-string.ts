/** A name or path of raw bytes, one character each. In a file of its own: types that browsers see too must not lead to those of Node. */
export type ByteString = string;
