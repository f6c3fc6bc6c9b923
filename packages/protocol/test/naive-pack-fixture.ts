/** A second reader of packs, written from the page alone, on hexadecimal text and BigInt, slow and simple. It shares no code with the first. */
import { createHash } from 'node:crypto';
import { zstdDecompressSync } from 'node:zlib';

export interface NaiveOutcome {
  /** one line for each record that was judged: its hash, then `good` or the code of its rejection */
  readonly lines: string[];
  /** where the pack broke */
  readonly brokenAt: number | undefined;
}

export function readPackNaively(pack: Uint8Array, nodeBytesMax: number): NaiveOutcome {
  const hex = Buffer.from(pack).toString('hex');
  const lines: string[] = [];
  const broken = (brokenAt: number): NaiveOutcome => ({ lines, brokenAt });
  if (pack.length > 67_108_864) return broken(67_108_864);
  if (!hex.startsWith('4846504b01000000')) return broken(0);
  const seen: string[] = [];
  let refs = 0n;
  for (let at = 8; at < pack.length; ) {
    const text = hex.slice(2 * at, 2 * at + 88);
    if (text.length < 88 || seen.length === 4096) return broken(at);
    const hash = text.slice(0, 64);
    const codec = text.slice(64, 66);
    const stored = littleEndian(text.slice(72, 80));
    const canonical = littleEndian(text.slice(80, 88));
    if (!['00', '01'].includes(codec) || text.slice(66, 72) !== '000000') return broken(at);
    if (canonical === 0n || canonical > 8_388_608n) return broken(at);
    if (codec === '00' ? stored !== canonical : stored > canonical) return broken(at);
    if (seen.includes(hash)) return broken(at);
    seen.push(hash);
    const end = at + 44 + Number(stored);
    if (end > pack.length) return broken(at);
    const verdict = judge(hash, codec, hex.slice(2 * (at + 44), 2 * end), canonical, nodeBytesMax);
    if (typeof verdict === 'bigint') {
      refs += verdict;
      if (refs > 65_536n) return broken(at);
    }
    lines.push(`${hash} ${typeof verdict === 'bigint' ? 'good' : verdict}`);
    at = end;
  }
  return { lines, brokenAt: undefined };
}

/** The number of refs of a good node, else the code. */
function judge(hash: string, codec: string, stored: string, length: bigint, max: number): bigint | string {
  if (length > BigInt(max)) return 'NODE_TOO_LARGE';
  const canonical = codec === '00' ? stored : unpack(stored, length);
  if (canonical === undefined) return 'INVALID_CANONICAL_NODE';
  const digest = createHash('sha256').update(canonical, 'hex').digest('hex');
  if (digest !== hash) return 'NODE_DIGEST_MISMATCH';
  return countRefs(canonical) ?? 'INVALID_CANONICAL_NODE';
}

function countRefs(node: string): bigint | undefined {
  const field = (from: number, to: number) => littleEndian(node.slice(2 * from, 2 * to));
  if (node.length < 48 || !node.startsWith('5544010000000000')) return undefined;
  const [size, refs, typeLength, reserved] = [field(8, 16), field(16, 20), field(20, 22), field(22, 24)];
  if (refs > 256n || typeLength < 1n || typeLength > 1024n || reserved !== 0n) return undefined;
  if (BigInt(node.length / 2) !== 24n + typeLength + 32n * refs + size) return undefined;
  const type = Buffer.from(node.slice(48, 48 + 2 * Number(typeLength)), 'hex').toString('latin1');
  return /^[ -~]+$/.test(type) ? refs : undefined;
}

function unpack(frame: string, length: bigint): string | undefined {
  if (!isOneFrame(frame, length)) return undefined;
  try {
    const bytes = zstdDecompressSync(Buffer.from(frame, 'hex'), { maxOutputLength: Number(length) });
    return BigInt(bytes.length) === length ? bytes.toString('hex') : undefined;
  } catch {
    return undefined;
  }
}

function isOneFrame(frame: string, length: bigint): boolean {
  if (!frame.startsWith('28b52ffd') || frame.length < 10) return false;
  const flags = Number.parseInt(frame.slice(8, 10), 16).toString(2).padStart(8, '0');
  const single = flags[2] === '1';
  if (flags[4] !== '0') return false;
  let rest = frame.slice(10);
  const take = (bytes: number): bigint | undefined => {
    if (rest.length < 2 * bytes) return undefined;
    const value = littleEndian(rest.slice(0, 2 * bytes));
    rest = rest.slice(2 * bytes);
    return value;
  };
  const windowCode = single ? 0n : take(1);
  const dictionary = take({ '00': 0, '01': 1, '10': 2, '11': 4 }[flags.slice(6)] as number);
  const sizeBytes = { '00': single ? 1 : 0, '01': 2, '10': 4, '11': 8 }[flags.slice(0, 2)] as number;
  const stated = take(sizeBytes);
  if (windowCode === undefined || dictionary === undefined || stated === undefined) return false;
  const size = sizeBytes === 2 ? stated + 256n : stated;
  if (dictionary !== 0n || (sizeBytes > 0 && size !== length)) return false;
  const window = single ? size : ((8n + (windowCode & 7n)) << (10n + (windowCode >> 3n))) / 8n;
  if (window > 8_388_608n) return false;
  const blockMax = window < 131_072n ? window : 131_072n;
  let plain = 0n;
  for (;;) {
    const block = take(3);
    if (block === undefined) return false;
    const type = (block >> 1n) & 3n;
    const bytes = block >> 3n;
    if (type === 3n || bytes > blockMax) return false;
    if (type !== 2n) plain += bytes;
    if (plain > length || take(type === 1n ? 1 : Number(bytes)) === undefined) return false;
    if ((block & 1n) === 1n) return rest.length === (flags[5] === '1' ? 8 : 0);
  }
}

function littleEndian(hex: string): bigint {
  return BigInt(`0x0${(hex.match(/../g) ?? []).toReversed().join('')}`);
}
