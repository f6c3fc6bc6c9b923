/** App and Space ids: what is one, and that no two of them ever share data. */
import { expectEqual, expectError, expectInvalid, expectNotFound, expectStatus } from '../expect.ts';
import { makeNode } from '../node-bytes.ts';
import { NO_USAGE } from '../space-client.ts';
import { type Check, check } from '../suite.ts';

const ID_RULE = 'Routes and ids: appId and spaceId are 1…256 code points without control characters';
const ISOLATION = 'Routes and ids: two different strings never share data';

const GOOD_SUFFIXES = {
  'a slash': '/x',
  'an encoded-looking slash': '%2F',
  'a percent sign': '%',
  spaces: ' a b ',
  'a plus': '+',
  'a question mark and a hash sign': '?a=1#b',
  'a backslash': '\\..\\',
  quotes: `'"\``,
  separators: ';:@&=,$!*()',
  'dots inside': '/../x',
  'é composed': '\u00e9',
  'é decomposed': 'e\u0301',
  'an emoji': '👩‍👩‍👧‍👦',
  'right-to-left text': '\u202eabc\u05d0',
  'a line separator': '\u2028',
  'a zero-width space': '\u200b',
  'a byte order mark': '\ufeff',
  'a private-use character': '\ue000',
  'a noncharacter': '\uffff',
  SQL: `'; DROP TABLE nodes; --`,
  markup: '<b>{{x}}</b>',
};

const CONTROLS = ['\u0000', '\u0001', '\t', '\n', '\r', '\u001f', '\u007f', '\u0080', '\u009f'];

const UNDECODABLE = [
  '%',
  '%zz',
  '%4',
  'a%',
  '%C3%28',
  '%FF',
  '%ED%A0%80',
  '%C0%AF',
  '%F4%90%80%80',
  '%E2%82',
];

/** Pairs that a careless store or a careless comparison would take for one. */
const PAIRS: readonly (readonly [string, string, string])[] = [
  ['letter case', 'a', 'A'],
  ['NFC and NFD', '\u00e9', 'e\u0301'],
  ['compatibility forms', 'ﬁ', 'fi'],
  ['full width', 'Ａ', 'A'],
  ['case folding', 'ß', 'ss'],
  ['Kelvin sign', '\u212a', 'K'],
  ['dotless i', 'ı', 'i'],
  ['a trailing space', 'x', 'x '],
  ['a trailing dot', 'x', 'x.'],
  ['a trailing slash', 'x', 'x/'],
  ['plus and space', 'a+b', 'a b'],
  ['slash and its encoding', 'a/b', 'a%2Fb'],
  ['percent twice', '%41', 'A'],
  ['zero-width joiner', 'ab', 'a\u200db'],
  ['path tricks', 'b', 'a/../b'],
  ['backslash', 'a/b', 'a\\b'],
  ['separators', 'a:b', 'a_b'],
  ['wildcards', '%', '_'],
];

export const idChecks: readonly Check[] = [
  check('ids.accepted', ID_RULE, 'any characters but controls make an id', async ({ newSpace }) => {
    for (const [what, suffix] of Object.entries(GOOD_SUFFIXES)) {
      const client = newSpace(suffix);
      const node = await client.published(makeNode({ content: what }));
      await client.expectContent(node, `a Space id with ${what}`);
      expectEqual((await client.usage()).nodeCount, 1, `nodeCount in a Space id with ${what}`);
    }
  }),
  check('ids.length', ID_RULE, '256 code points are an id, 257 are 400', async ({ newSpace }) => {
    const prefix = [...newSpace().spaceId].length;
    for (const character of ['a', 'é', '👍']) {
      const longest = newSpace(character.repeat(256 - prefix));
      const node = makeNode({ content: character });
      await longest.publish(node);
      expectStatus(await longest.readContent(node.hash), 200, `256 code points of ${character}`);
      await longest.commit('x'.repeat(256), { [node.hash]: 1 });
      expectEqual((await longest.page()).items.length, 1, `items of 256 code points of ${character}`);
      const tooLong = newSpace(character.repeat(257 - prefix));
      expectInvalid(await tooLong.call('getUsage'), `257 code points of ${character}`);
    }
  }),
  check('ids.controls', ID_RULE, 'control characters are 400', async ({ newSpace }) => {
    for (const control of CONTROLS) {
      const answer = await newSpace(`${control}x`).call('getUsage');
      expectInvalid(answer, `a Space id with U+${control.charCodeAt(0).toString(16).padStart(4, '0')}`);
    }
  }),
  check(
    'ids.undecodable',
    'Routes and ids: an undecodable id is 400 INVALID_REQUEST',
    'broken percent-encoding or UTF-8 is 400',
    async ({ client }) => {
      for (const segment of UNDECODABLE) {
        expectInvalid(await client.atPath(segment).call('getUsage'), `Space segment ${segment}`);
        const path = client.path('getUsage', undefined, segment);
        expectInvalid(await client.request('GET', path), `App segment ${segment}`);
      }
    },
  ),
  check(
    'ids.undecodable-bare',
    'Capabilities: authorization comes before every other validation of a known route',
    'without a token the same is 401',
    async ({ client }) => {
      const answer = await client.atPath('%FF').call('getUsage', { headers: { authorization: undefined } });
      expectError(answer, 401, 'missing_token', 'authorization comes first');
    },
  ),
  check('ids.empty', ID_RULE, 'an empty id is none', async ({ client }) => {
    const answer = await client.atPath('').call('getUsage');
    expectStatus(answer, [400, 404], 'no Space with an empty id: 400 or 404');
  }),
  check('ids.spelling', ID_RULE, 'an id is compared after percent-decoding', async ({ newSpace }) => {
    const client = newSpace('é~');
    const node = await client.published();
    const first = client.spaceId.charCodeAt(0).toString(16);
    const spellings = [
      encodeURIComponent(client.spaceId).toLowerCase(),
      `%${first}${encodeURIComponent(client.spaceId.slice(1))}`,
      client.spaceId,
      encodeURIComponent(client.spaceId).replace('~', '%7E'),
    ];
    for (const segment of spellings) {
      const answer = await client.atPath(segment).call('readMetadata', { hash: node.hash });
      expectStatus(answer, 200, 'percent-encoding does not change the id');
    }
  }),
  check(
    'isolation.pairs',
    ISOLATION,
    'ids that look alike share neither data nor tokens',
    async ({ newSpace }) => {
      for (const [what, first, second] of PAIRS) {
        const base = newSpace();
        const one = base.inSpace(base.spaceId + first);
        const two = base.inSpace(base.spaceId + second);
        const node = makeNode({ content: what });
        await one.publish(node);
        await one.commit('r', { [node.hash]: 1 });
        // Read where it belongs first: what a server remembers of it must not leak either.
        await one.describe(node.hash);
        await one.readContent(node.hash);
        expectNotFound(await two.call('readMetadata', { hash: node.hash }), `ids that differ by ${what}`);
        await two.expectUsage(NO_USAGE, `of the other id (${what})`);
        expectEqual((await two.page()).revision, 0, `revision of the other id (${what})`);
        const crossed = await one.atPath(encodeURIComponent(two.spaceId)).call('getUsage');
        expectError(crossed, 403, 'resource_scope_mismatch', `the token of an id that differs by ${what}`);
      }
    },
  ),
  check(
    'isolation.content',
    ISOLATION,
    'bytes of one Space say nothing in another',
    async ({ client, newSpace }) => {
      const node = await client.published(makeNode({ content: 'the same bytes in two Spaces' }));
      await client.describe(node.hash);
      expectStatus(await client.readContent(node.hash), 200);
      const other = newSpace();
      await other.expectAbsent(node.hash, 'a node of another Space');
      await other.expectLease(
        node.hash,
        'awaiting_upload',
        'state of a lease on a node that only another Space has',
      );
      expectNotFound(await other.update('r', { [node.hash]: 1 }), 'a root ref on a node of another Space');
      await other.expectUsage(NO_USAGE, 'of the other Space');
    },
  ),
  check(
    'isolation.uploads',
    ISOLATION,
    'an upload arrives in its own Space only',
    async ({ client, newSpace }) => {
      const { node, upload } = await client.startUpload();
      const other = newSpace();
      await other.instruction(node.hash);
      expectStatus(await client.put(upload, node.bytes), 200);
      await other.expectLease(node.hash, 'awaiting_upload', 'state in the Space that received nothing');
      await client.expectLease(node.hash, 'ready', 'state in the Space that received the bytes');
    },
  ),
  check(
    'isolation.apps',
    ISOLATION,
    'one spaceId in two Apps is two Spaces',
    'second-app',
    async ({ client, target }) => {
      const second = target.options.secondIdentity;
      if (!second) return;
      const node = await client.published();
      const other = client.asIdentity(second);
      expectNotFound(
        await other.call('readMetadata', { hash: node.hash }),
        'the same spaceId in another App',
      );
      await other.expectUsage(NO_USAGE, 'of the same spaceId in another App');
    },
  ),
];
