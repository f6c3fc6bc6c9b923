/** How strictly JSON bodies are read: media type, syntax, duplicate and unknown fields, integers, size. */
import { expectEqual, expectError, expectInvalid, expectStatus, expectThat } from '../expect.ts';
import { randomHash } from '../node-bytes.ts';
import type { OperationName, SpaceClient } from '../space-client.ts';
import { type Check, check } from '../suite.ts';
import { readGcPass } from '../wire.ts';
import { inPieces } from './upload-target.ts';

const JSON_RULE = 'Errors: bad JSON → 400 INVALID_REQUEST';
const FIELD_RULE = 'Errors: unknown or duplicate field, at any level, however escaped → 400 INVALID_REQUEST';
const INTEGER_RULE = 'Errors: integers in bodies';
const SIZE_RULE = 'Errors: JSON body over 1 MiB → 413 PAYLOAD_TOO_LARGE';
const BODY_BYTES_MAX = 1_048_576;

type Body = string | Uint8Array<ArrayBuffer>;

function bytes(...parts: readonly (string | readonly number[])[]): Uint8Array<ArrayBuffer> {
  return new Uint8Array(
    parts.flatMap((part) => (typeof part === 'string' ? [...Buffer.from(part)] : [...part])),
  );
}

async function refuseAll(
  client: SpaceClient,
  operation: OperationName,
  bodies: Readonly<Record<string, Body>>,
): Promise<void> {
  const hash = randomHash();
  for (const [what, body] of Object.entries(bodies)) {
    expectInvalid(await client.call(operation, { hash, body }), `body: ${what}`);
  }
}

/** Broken in the same ways for every operation: `field` is a field that the operation takes, `good` a value it accepts. */
function brokenSyntax(field: string, good: string): Record<string, Body> {
  const whole = `{"${field}":${good}}`;
  return {
    'cut off': whole.slice(0, -1),
    'trailing comma': `{"${field}":${good},}`,
    'trailing text': `${whole} x`,
    'two values': `${whole}${whole}`,
    'single quotes': `{'${field}':${good}}`,
    'no quotes': `{${field}:${good}}`,
    'a comment': `/* */${whole}`,
    'a line comment': `${whole}//`,
    'a byte order mark': bytes([0xef, 0xbb, 0xbf], whole),
    'a NUL after it': `${whole}\u0000`,
    'a form feed as space': `\f${whole}`,
    'a no-break space': `\u00a0${whole}`,
    'invalid UTF-8 in a key': bytes('{"', [0xff], `":1,"${field}":${good}}`),
    'an overlong UTF-8 form': bytes('{"', [0xc1, 0xa1], `":1,"${field}":${good}}`),
    'UTF-16': new Uint8Array(Buffer.from(whole, 'utf16le')),
    'a raw line feed in a string': `{"a\n":1,"${field}":${good}}`,
    'a bad escape': `{"\\x61":1,"${field}":${good}}`,
    'no value': `{"${field}":}`,
    'no colon': `{"${field}" ${good}}`,
    null: 'null',
    'an array': `[${whole}]`,
    'a string': '"x"',
    'a number': '1',
    'white space alone': ' \n',
    'deep nesting': `{"${field}":${'['.repeat(20_000)}${']'.repeat(20_000)}}`,
    'deep nesting, unclosed': '{"a":'.repeat(20_000),
  };
}

function wrongFields(field: string, good: string): Record<string, Body> {
  const escaped = `\\u${field.charCodeAt(0).toString(16).padStart(4, '0')}${field.slice(1)}`;
  return {
    'an unknown field': `{"${field}":${good},"x":1}`,
    'an unknown field that holds an object': `{"${field}":${good},"x":{"y":[1]}}`,
    'an unknown field that is null': `{"${field}":${good},"x":null}`,
    'another letter case': `{"${field.toUpperCase()}":${good}}`,
    'an empty name': `{"${field}":${good},"":1}`,
    __proto__: `{"${field}":${good},"__proto__":{}}`,
    constructor: `{"${field}":${good},"constructor":1}`,
    'a duplicate': `{"${field}":${good},"${field}":${good}}`,
    'an escaped duplicate': `{"${field}":${good},"${escaped}":${good}}`,
  };
}

/** Values that are no positive integer. */
const NOT_POSITIVE_INTEGERS = [
  ...[
    '0',
    '-0',
    '-1',
    '1.5',
    '0.9',
    '1e-1',
    '-60000',
    '0e5',
    '9007199254740992',
    '9007199254740993',
    '1e16',
    '1e400',
  ],
  ...['"60000"', '""', 'true', 'false', 'null', '[]', '[60000]', '{}', '{"a":1}'],
  ...['060000', '+60000', '.5', '60000.', '0x10', '6e', '6e+', 'NaN', 'Infinity', '60_000', '１', '--1'],
];

function wrongIntegers(field: string): Record<string, Body> {
  return Object.fromEntries(
    NOT_POSITIVE_INTEGERS.map((text) => [`${field} = ${text}`, `{"${field}":${text}}`]),
  );
}

const WRONG_MEDIA_TYPES = [
  'text/plain',
  'application/x-www-form-urlencoded',
  'application/jsonp',
  'application/json-patch+json',
  'text/json',
  'application/octet-stream',
  'multipart/form-data; boundary=x',
  'application/jso',
  'json',
];
const RIGHT_MEDIA_TYPES = [
  'application/json',
  'application/json; charset=utf-8',
  'application/json;charset=UTF-8',
  'Application/JSON',
];

function bodiesOf(client: SpaceClient): readonly (readonly [OperationName, string])[] {
  return [
    ['leaseNode', '{"leaseDurationMs":60000}'],
    ['runGc', '{"maxNodes":1}'],
    ['updateRootRefs', `{"requestId":"${client.spaceId}","changes":{"${'b'.repeat(64)}":0}}`],
  ];
}

function padded(body: string, byteLength: number): Uint8Array<ArrayBuffer> {
  const result = new Uint8Array(byteLength).fill(0x20);
  result.set(Buffer.from(body));
  return result;
}

export const jsonBodyChecks: readonly Check[] = [
  check('json.lease-syntax', JSON_RULE, 'lease refuses every broken JSON', ({ client }) =>
    refuseAll(client, 'leaseNode', brokenSyntax('leaseDurationMs', '60000')),
  ),
  check('json.gc-syntax', JSON_RULE, 'gc refuses every broken JSON', ({ client }) =>
    refuseAll(client, 'runGc', brokenSyntax('maxNodes', '1')),
  ),
  check('json.root-refs-syntax', JSON_RULE, 'root refs refuse every broken JSON', ({ client }) =>
    refuseAll(client, 'updateRootRefs', brokenSyntax('requestId', '"a"')),
  ),
  check('json.lease-fields', FIELD_RULE, 'lease takes exactly leaseDurationMs, once', ({ client }) =>
    refuseAll(client, 'leaseNode', wrongFields('leaseDurationMs', '60000')),
  ),
  check('json.gc-fields', FIELD_RULE, 'gc takes exactly maxNodes, once', ({ client }) =>
    refuseAll(client, 'runGc', wrongFields('maxNodes', '1')),
  ),
  check(
    'json.root-refs-fields',
    FIELD_RULE,
    'root refs take exactly requestId and changes, each hash once',
    async ({ client }) => {
      const node = await client.published();
      const h = node.hash;
      const other = randomHash();
      const escaped = `\\u00${h.charCodeAt(0).toString(16)}${h.slice(1)}`;
      await refuseAll(client, 'updateRootRefs', {
        'no requestId': `{"changes":{"${h}":1}}`,
        'no changes': '{"requestId":"a"}',
        'an unknown field': `{"requestId":"a","changes":{"${h}":1},"refDomain":"conformance"}`,
        'a duplicate field': `{"requestId":"a","requestId":"a","changes":{"${h}":1}}`,
        'an escaped duplicate field': `{"requestId":"a","changes":{"${h}":1},"ch\\u0061nges":{"${h}":1}}`,
        'a duplicate hash': `{"requestId":"a","changes":{"${h}":1,"${h}":1}}`,
        'an escaped duplicate hash': `{"requestId":"a","changes":{"${h}":1,"${escaped}":1}}`,
        'a duplicate hash apart': `{"requestId":"a","changes":{"${h}":1,"${other}":1,"${h}":2}}`,
        'changes empty': '{"requestId":"a","changes":{}}',
        'changes an array': `{"requestId":"a","changes":["${h}"]}`,
        'changes null': '{"requestId":"a","changes":null}',
        'an upper-case hash': `{"requestId":"a","changes":{"${'A'.repeat(64)}":1}}`,
        'a short hash': `{"requestId":"a","changes":{"${h.slice(1)}":1}}`,
        'a long hash': `{"requestId":"a","changes":{"${h}0":1}}`,
        'a hash and __proto__': `{"requestId":"a","changes":{"${h}":1,"__proto__":1}}`,
        'requestId empty': `{"requestId":"","changes":{"${h}":1}}`,
        'requestId a number': `{"requestId":1,"changes":{"${h}":1}}`,
        'requestId null': `{"requestId":null,"changes":{"${h}":1}}`,
        'requestId of 257 characters': `{"requestId":"${'a'.repeat(257)}","changes":{"${h}":1}}`,
        'requestId a lone surrogate': `{"requestId":"\\ud800","changes":{"${h}":1}}`,
        'requestId a reversed pair': `{"requestId":"\\udc00\\ud800","changes":{"${h}":1}}`,
        'a list in a delta': `{"requestId":"a","changes":{"${h}":[1]}}`,
      });
      expectEqual((await client.page()).revision, 0, 'revision after refused commits');
    },
  ),
  check('json.lease-not-integers', INTEGER_RULE, 'leaseDurationMs is an integer above 0', ({ client }) =>
    refuseAll(client, 'leaseNode', wrongIntegers('leaseDurationMs')),
  ),
  check('json.gc-not-integers', INTEGER_RULE, 'maxNodes is an integer above 0', ({ client }) =>
    refuseAll(client, 'runGc', wrongIntegers('maxNodes')),
  ),
  check(
    'json.lease-integers',
    INTEGER_RULE,
    'every JSON spelling of an integer is one (lease)',
    async ({ client }) => {
      const node = await client.published();
      for (const text of ['60000.0', '6e4', '6E+4', '6.0e4', '600000e-1', '9007199254740991', '1', '1e0']) {
        const answer = await client.call('leaseNode', {
          hash: node.hash,
          body: ` {\t"leaseDurationMs" :\r\n${text} } `,
        });
        expectStatus(answer, 200, `leaseDurationMs = ${text} is an integer`);
      }
    },
  ),
  check(
    'json.gc-integers',
    INTEGER_RULE,
    'every JSON spelling of an integer is one (gc)',
    async ({ client }) => {
      for (const text of ['1', '1.0', '1e2', '100E-1', '10000', '10001', '9007199254740991']) {
        readGcPass(await client.call('runGc', { body: `{"maxNodes":${text}}` }));
      }
    },
  ),
  check(
    'json.not-quite-integers',
    INTEGER_RULE,
    'a fraction too small for a double is still a fraction',
    async ({ client }) => {
      for (const text of ['1.0000000000000000001', '9007199254740991.4', '60000.00000000000001']) {
        const answer = await client.call('leaseNode', {
          hash: randomHash(),
          body: `{"leaseDurationMs":${text}}`,
        });
        expectInvalid(answer, `${text} is no integer`);
      }
    },
  ),
  check(
    'json.deltas',
    INTEGER_RULE,
    'a delta is an integer of at most 1,000,000 in magnitude',
    async ({ client }) => {
      const node = await client.published();
      for (const text of [
        '1000001',
        '-1000001',
        '1.5',
        '1e7',
        '9007199254740992',
        '"1"',
        'null',
        'true',
        '[]',
        '{}',
        '01',
        '+1',
      ]) {
        const body = `{"requestId":"a","changes":{"${node.hash}":${text}}}`;
        expectInvalid(await client.call('updateRootRefs', { body }), `delta ${text}`);
      }
      expectEqual((await client.page()).revision, 0, 'revision after refused commits');
      for (const text of ['1.0', '1e2', '1000000', '-1e6', '1E6', '-1000.00e3', '0', '-0', '0.0']) {
        const body = `{"requestId":"r ${text}","changes":{"${node.hash}":${text}}}`;
        expectStatus(
          await client.call('updateRootRefs', { body }),
          200,
          `delta ${text} is an integer within limits`,
        );
      }
    },
  ),
  check(
    'json.media-type',
    'Errors: wrong media type on a body → 400 INVALID_REQUEST',
    'bodies are application/json',
    async ({ client }) => {
      const hash = randomHash();
      for (const [operation, body] of bodiesOf(client)) {
        for (const type of WRONG_MEDIA_TYPES) {
          const answer = await client.call(operation, { hash, body, headers: { 'content-type': type } });
          expectInvalid(answer, `content-type ${type}`);
        }
        for (const type of RIGHT_MEDIA_TYPES) {
          const answer = await client.call(operation, { hash, body, headers: { 'content-type': type } });
          expectThat(answer.status !== 400, `content-type ${type} is accepted`, answer.status, answer);
        }
      }
    },
  ),
  check('json.size', SIZE_RULE, 'exactly 1 MiB is read, one byte more is 413', async ({ client }) => {
    const hash = randomHash();
    for (const [operation, body] of bodiesOf(client)) {
      const exact = await client.call(operation, { hash, body: padded(body, BODY_BYTES_MAX) });
      expectStatus(exact, [200, 404], 'a body of exactly 1 MiB is read');
      const over = await client.call(operation, { hash, body: padded(body, BODY_BYTES_MAX + 1) });
      expectError(over, 413, 'PAYLOAD_TOO_LARGE', 'one byte over 1 MiB');
      const chunked = await client.call(operation, {
        hash,
        body: inPieces(padded(body, BODY_BYTES_MAX + 1)),
      });
      expectError(chunked, 413, 'PAYLOAD_TOO_LARGE', 'over 1 MiB without a declared length');
      const piecewise = await client.call(operation, { hash, body: inPieces(padded(body, 200_000)) });
      expectStatus(piecewise, [200, 404], 'a body without a declared length is read');
    }
  }),
  check(
    'json.gc-without-body',
    'runGc: an absent or empty body means the default',
    'gc needs no body',
    async ({ client }) => {
      readGcPass(await client.call('runGc'));
      readGcPass(await client.call('runGc', { body: '{}' }));
      readGcPass(await client.call('runGc', { body: '' }));
    },
  ),
  check(
    'json.body-required',
    'leaseNode: the body is required, as that of updateRootRefs is',
    'lease and root refs need a body',
    async ({ client }) => {
      const hash = randomHash();
      expectInvalid(await client.call('leaseNode', { hash }), 'no body');
      expectInvalid(await client.call('leaseNode', { hash, body: '' }), 'an empty body');
      expectInvalid(await client.call('leaseNode', { hash, body: '{}' }), 'no leaseDurationMs');
      expectInvalid(await client.call('updateRootRefs'), 'no body');
    },
  ),
];
