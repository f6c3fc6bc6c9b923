/** Names of a tree as `--json` shows them. */
import { formatName } from '@holdfast/client/push';

/** `name` (or `path`) as text, and as hex where the text does not say it all. */
export function describeName(
  key: 'name' | 'path' | 'target' | 'from',
  bytes: Uint8Array,
): Record<string, string> {
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
  const isExact = Buffer.from(text).equals(bytes);
  return isExact
    ? { [key]: text }
    : { [key]: formatName(bytes), [`${key}Hex`]: Buffer.from(bytes).toString('hex') };
}
