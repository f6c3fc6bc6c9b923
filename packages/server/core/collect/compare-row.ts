/** Compares a row with the bytes of its node. They differ after a wrong write, or if a page of rows rotted unseen. */
import { NODE_HEADER_BYTES_MAX, NodeHeaderParser } from '@holdfast/protocol';
import type { NodeRow } from '../model.ts';

/** The bytes have the digest, so the row is wrong. */
export class RowContradicted extends Error {
  override readonly name = 'RowContradicted';
}

/** This many leading bytes of a node contain everything that its row repeats. */
export const headLength = ({ canonicalSize }: Pick<NodeRow, 'canonicalSize'>): number =>
  Math.min(canonicalSize, NODE_HEADER_BYTES_MAX);

/** `head`: the first bytes of a proven node */
export function parseHead(
  head: Uint8Array,
  canonicalSize: number,
): Pick<NodeRow, 'contentType' | 'size' | 'refs'> {
  const parser = new NodeHeaderParser();
  parser.push(head.subarray(0, NODE_HEADER_BYTES_MAX));
  const { contentType, size, refs } = parser.finish(canonicalSize);
  return { contentType, size, refs };
}

/** `head`: the first bytes of a node that has the digest of the row. Throws RowContradicted. */
export function compareRow(row: NodeRow, head: Uint8Array): void {
  const { contentType, size, refs } = parseHead(head, row.canonicalSize);
  const wrong = [
    contentType !== row.contentType && `its content type is ${contentType}, not ${row.contentType}`,
    size !== row.size && `its content has ${size} bytes, not ${row.size}`,
    Buffer.compare(refs, row.refs) !== 0 && 'its refs are others',
  ].filter((each) => each !== false);
  if (wrong.length > 0) throw new RowContradicted(`the row contradicts the bytes: ${wrong.join('; ')}`);
}
