/** The columns of nodes and of their content, as all statements that read whole rows name them. */

const ROW_COLUMNS = [
  ...['hash', 'state', 'size', 'canonical_size', 'content_type', 'refs', 'generation', 'storage'],
  ...['lease_started_at', 'lease_expires_at', 'child_ref_count', 'root_ref_count', 'held_domain_count'],
  ...['waiting_touched_at', 'claim_held_until', 'row_sum'],
];

/** The Space is in the sum of a row, so that a row whose key is wrong is damaged too. */
const READ_COLUMNS = ['space', ...ROW_COLUMNS];

/** as statements that write name them, in this order */
export const WRITTEN_NODE_COLUMNS = [...ROW_COLUMNS, 'stored_size'].join(', ');

export const NODE_COLUMNS = [...READ_COLUMNS, 'coalesce(stored_size, canonical_size) AS stored_size'].join(
  ', ',
);

/** for a join with contents */
export const JOINED_NODE_COLUMNS = [
  ...READ_COLUMNS.map((column) => `nodes.${column}`),
  'coalesce(nodes.stored_size, nodes.canonical_size) AS stored_size',
].join(', ');

export const JOINED_CONTENT_COLUMNS = [
  ...['contents.generation AS content_generation', 'contents.space AS content_space'],
  ...['contents.canonical_size AS content_canonical_size', 'contents.integrity', 'contents.inline_bytes'],
  ...['contents.url_expires_at', 'contents.pack', 'contents.pack_offset', 'contents.stored_length'],
  ...['contents.codec', 'contents.row_sum AS content_row_sum'],
].join(', ');
