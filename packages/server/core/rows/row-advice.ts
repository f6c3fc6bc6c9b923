/** The advice for a row in which more than one bit is wrong. */
export const damageOf = (table: string): string =>
  `is not as it was written, by more than one bit: ${
    table === 'nodes'
      ? 'check --repair puts it right by the bytes of the node, and so does an upload of it'
      : 'restore a backup of the rows'
  }`;
