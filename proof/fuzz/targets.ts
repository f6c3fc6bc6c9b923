/** What is fuzzed: each parser of bytes that come from a wire, a disk or a person, with what it may throw and what must hold. */
import { parseCarHeader } from '../../packages/client/bundle/car-header.ts';
import {
  CATALOG_CONTENT_TYPE,
  encodeCatalog,
  parseCatalog,
} from '../../packages/client/catalog/catalog-format.ts';
import { encodeDirectory, parseDirectory } from '../../packages/client/tree/format/directory-node.ts';
import { DIRECTORY_CONTENT_TYPE, type NodeParts } from '../../packages/client/tree/format/tree-format.ts';
import { parseTreeNode } from '../../packages/client/tree/format/tree-node.ts';
import type { Hash } from '../../packages/protocol/hash.ts';
import { decodeNode, encodeNode } from '../../packages/protocol/node-codec.ts';
import { PackReader } from '../../packages/protocol/pack/pack-reader.ts';
import { walkZstdFrame } from '../../packages/protocol/pack/zstd-frame.ts';
import { parseUpdateRootRefsRequest } from '../../packages/protocol/requests.ts';
import { parseStrictJson } from '../../packages/protocol/strict-json.ts';
import { parseToken } from '../../packages/server/auth/capability.ts';
import { parseByteRange } from '../../packages/server/core/read/byte-range.ts';
import {
  MessageReader,
  parseColumns,
  parseFailure,
  parseRow,
} from '../../packages/server/engine/postgres/wire/wire-messages.ts';
import { parseBatchOutcome, parseKeyPage } from '../../packages/server/engine/s3/xml-answers.ts';

export interface FuzzTarget {
  readonly name: string;
  /** inputs that are good, or nearly */
  readonly seeds: readonly Uint8Array[];
  /** names of the errors that say "this is no such thing"; any other is found */
  readonly refusals: readonly string[];
  /**
   * Parses, and asserts what must hold of anything that is accepted. Returns a few words of what came out: inputs that give words
   * not seen before are kept and changed further.
   */
  run(input: Uint8Array): string;
}

const utf8 = new TextEncoder();
const text = (input: Uint8Array): string => new TextDecoder().decode(input);
const HASH = '3f'.repeat(32) as Hash;
const SMALL_NODE = encodeNode({ contentType: 'text/plain', refs: [HASH], content: utf8.encode('content') });

function assertSame(a: Uint8Array, b: Uint8Array, what: string): void {
  if (Buffer.compare(a, b) !== 0) throw new Error(`${what}: accepted, and written again it is another`);
}

/** Of raw digests, one after the other. */
function hashesOf(refs: Uint8Array): string[] {
  return refs.toHex().match(/.{64}/g) ?? [];
}

function packOf(...nodes: readonly Uint8Array[]): Uint8Array {
  const records = nodes.map((node) => {
    const head = Buffer.alloc(44);
    head.set(new Bun.CryptoHasher('sha256').update(node).digest(), 0);
    head.writeUInt32LE(node.length, 36);
    head.writeUInt32LE(node.length, 40);
    return Buffer.concat([head, node]);
  });
  return Buffer.concat([Uint8Array.of(0x48, 0x46, 0x50, 0x4b, 1, 0, 0, 0), ...records]);
}

function directoryContent(): NodeParts {
  const file = {
    kind: 'file',
    hash: HASH as Hash,
    bytes: 5,
    entryCount: 0,
    isExecutable: false,
    mtimeNs: 1n,
  } as const;
  return encodeDirectory(['a', 'b.txt', 'ü'].map((name) => ({ name: utf8.encode(name), ...file })));
}

/** Of PostgreSQL: its type, its length and a body in hex. */
function message(type: string, ...parts: readonly string[]): Buffer {
  const body = Buffer.from(parts.join(''), 'hex');
  const head = Buffer.alloc(5);
  head.write(type, 'latin1');
  head.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([head, body]);
}

/** Refs and content in one input: its first byte says how many refs, the rest is the content. */
function splitParts(input: Uint8Array, contentType: string): NodeParts {
  const count = input.length > 0 ? (input[0] as number) % 4 : 0;
  const refs = Array.from({ length: count }, (_, index) => HASH.replace(/^3f/, `0${index}`));
  return { contentType, refs: refs as Hash[], content: input.subarray(1) };
}

function protocolTargets(): FuzzTarget[] {
  return [
    {
      name: 'node',
      seeds: [SMALL_NODE, encodeNode({ contentType: 'a', refs: [], content: new Uint8Array() })],
      refusals: ['NodeFormatError'],
      run(input) {
        const node = decodeNode(input);
        assertSame(encodeNode({ ...node, refs: hashesOf(node.refs) }), input, 'node');
        return `${node.refs.length / 32} refs`;
      },
    },
    {
      name: 'pack',
      seeds: [
        packOf(SMALL_NODE),
        packOf(),
        packOf(SMALL_NODE, encodeNode({ contentType: 'b', refs: [], content: SMALL_NODE })),
      ],
      refusals: [],
      run(input) {
        const whole = readPack(input, input.length);
        const cut = 1 + (input.length % 37);
        const pieces = readPack(input, cut);
        if (whole !== pieces) throw new Error(`pack: in one piece ${whole}, in pieces ${pieces}`);
        return whole.replaceAll(/\d+/g, '');
      },
    },
    {
      name: 'zstd frame',
      seeds: [Bun.zstdCompressSync(SMALL_NODE), Bun.zstdCompressSync(new Uint8Array(3000))],
      refusals: ['ZstdFrameError'],
      run: (input) => Object.keys(walkZstdFrame(input, 4096)).join(),
    },
    {
      name: 'strict JSON',
      seeds: ['{"a":[1,2.5e3,"\\u00e9"],"b":null}', '[[[[]]]]', '"x"', '-0.1e-7'].map((json) =>
        utf8.encode(json),
      ),
      refusals: ['StrictJsonError'],
      run(input) {
        const value = parseStrictJson(input);
        // Whatever it accepts, the language's own parser accepts too.
        JSON.parse(text(input));
        return typeof value;
      },
    },
    {
      name: 'root refs request',
      seeds: [utf8.encode(`{"requestId":"r","changes":{"${HASH}":1}}`)],
      refusals: ['ApiError'],
      run: (input) => Object.keys(parseUpdateRootRefsRequest(input)).join(),
    },
  ];
}

function readPack(input: Uint8Array, pieceBytes: number): string {
  const reader = new PackReader();
  let records = 0;
  for (let at = 0; at < input.length; at += pieceBytes)
    for (const { stored } of reader.push(input.subarray(at, at + pieceBytes)))
      records += stored.length > 0 ? 1 : 0;
  reader.end();
  return `${records} ${reader.fault?.byte} ${reader.fault?.message}`;
}

function clientTargets(): FuzzTarget[] {
  return [
    {
      name: 'directory',
      seeds: [Buffer.concat([Uint8Array.of(3), directoryContent().content])],
      refusals: ['TreeFormatError'],
      run(input) {
        const entries = parseDirectory(splitParts(input, DIRECTORY_CONTENT_TYPE));
        assertSame(encodeDirectory(entries).content, input.subarray(1), 'directory');
        return `${entries.length} entries`;
      },
    },
    {
      name: 'tree node',
      seeds: [Uint8Array.of(0, 0x2e, 0x2e, 0x2f, 0x61)],
      refusals: ['TreeFormatError'],
      run: (input) => parseTreeNode(splitParts(input, 'application/vnd.holdfast.tree.symlink.v1')).type,
    },
    {
      name: 'catalog',
      seeds: [encodeCatalog({ random: 'ab', previous: [HASH], snapshots: [] } as never)],
      refusals: ['CatalogError'],
      run(input) {
        const catalog = parseCatalog(CATALOG_CONTENT_TYPE, input);
        parseCatalog(CATALOG_CONTENT_TYPE, encodeCatalog(catalog));
        return `${catalog.snapshots.length} snapshots`;
      },
    },
    {
      name: 'CAR header',
      seeds: [Buffer.from(`a265726f6f747381d82a58250001551220${HASH}6776657273696f6e01`, 'hex')],
      refusals: ['BundleError'],
      run: (input) => `${parseCarHeader(input).length} roots`,
    },
  ];
}

function serverTargets(): FuzzTarget[] {
  const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
  const token = `${part({ alg: 'ES256', kid: 'k' })}.${part({ iss: 'i', ver: 1 })}.c2ln`;
  const key =
    '<Contents><Key>a/b</Key><LastModified>2026-01-01T00:00:00Z</LastModified><Size>1</Size></Contents>';
  const page = `<?xml version="1.0"?><ListBucketResult><IsTruncated>false</IsTruncated>${key}</ListBucketResult>`;
  const outcome = '<DeleteResult><Error><Key>a</Key><Code>AccessDenied</Code></Error></DeleteResult>';
  return [
    {
      name: 'token',
      seeds: [utf8.encode(token)],
      refusals: ['ApiError'],
      run: (input) => parseToken(text(input)).algorithm,
    },
    {
      name: 'byte range',
      seeds: ['bytes=0-9', 'bytes=5-', 'bytes=-3'].map((range) => utf8.encode(range)),
      refusals: [],
      run(input) {
        const range = parseByteRange(text(input), 100);
        const { start = 0, end = 0 } = range as { start?: number; end?: number };
        if (start < 0 || end > 100) throw new Error(`range: ${start} to ${end} of 100`);
        return Object.keys(range).join();
      },
    },
    {
      name: 'S3 listing',
      seeds: [utf8.encode(page)],
      refusals: ['XmlInvalid', 'Error'],
      run: (input) => Object.keys(parseKeyPage(text(input))).join(),
    },
    {
      name: 'S3 deletion',
      seeds: [utf8.encode(outcome)],
      refusals: ['XmlInvalid', 'Error'],
      run: (input) => Object.keys(parseBatchOutcome(text(input))).join(),
    },
    {
      name: 'PostgreSQL messages',
      seeds: [
        Buffer.concat([
          message('T', '0001', '6100', '00000000', '0000', '00000017', '0004', 'ffffffff', '0000'),
          message('D', '0001', '00000001', '37'),
        ]),
        message('E', '534552524f5200', '43343230303100', '00'),
      ],
      refusals: ['Error', 'RangeError', 'SyntaxError'],
      run: readMessages,
    },
  ];
}

function readMessages(input: Uint8Array): string {
  let columns: ReturnType<typeof parseColumns> = [];
  let said = '';
  for (const message of new MessageReader().read(Buffer.from(input))) {
    said += message.type;
    if (message.type === 'T') columns = parseColumns(message);
    if (message.type === 'D') parseRow(message, columns);
    if (message.type === 'E') parseFailure(message);
  }
  return said.slice(0, 8);
}

export const FUZZ_TARGETS: readonly FuzzTarget[] = [
  ...protocolTargets(),
  ...clientTargets(),
  ...serverTargets(),
];
