/** Stores that are refused at the start, and the reasons. */
import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { NODE_MEDIA_TYPE } from '@holdfast/protocol';
import { makeAuthority } from '../../../../test/support/certificates.ts';
import { makeTempFolder } from '../../../../test/support/temp-folder.ts';
import type { ContentStore } from '../../core/ports.ts';
import { StoreUnavailable } from '../../core/store-failure.ts';
import { EngineRefused } from '../refused.ts';
import { newGeneration, SPACE, urlLifeUntil } from '../test/samples.ts';
import type { S3ContentStoreConfig } from './open-s3-content-store.ts';
import { configOf, openStore } from './test/s3-fixture.ts';
import {
  errorAnswer,
  type Flaws,
  type SeenRequest,
  type StandIn,
  startStandIn,
} from './test/stand-in-store.ts';

let standIn: StandIn;
let opened: ContentStore[] = [];

beforeEach(async () => {
  standIn = await startStandIn();
});
afterEach(async () => {
  for (const store of opened) await store.close();
  opened = [];
  await standIn.close();
});

async function open(flaws: Flaws, changes: Partial<S3ContentStoreConfig> = {}): Promise<ContentStore> {
  standIn.flaws = flaws;
  const limits = { retryPauseMs: 1, attemptsMax: 2 };
  const store = await openStore(configOf(standIn.bucket, { limits, ...changes }));
  opened.push(store);
  return store;
}

const failureOf = (flaws: Flaws, changes: Partial<S3ContentStoreConfig> = {}): Promise<unknown> =>
  open(flaws, changes).then(
    () => undefined,
    (error) => error,
  );

describe('the probe refuses a store', () => {
  const cases: readonly (readonly [string, Flaws, RegExp])[] = [
    ['that ignores signatures', { signatures: 'ignored' }, /takes uploads without a signature/],
    ['that ignores expiry', { expiry: 'ignored' }, /takes uploads by a URL that has expired/],
    ['that ignores if-none-match', { condition: 'ignored' }, /let 32 of 32 writers that raced/],
    [
      'that lets two of 32 racing writers win',
      { condition: 'racy' },
      /let 2 of 32 writers that raced for one key win/,
    ],
    ['that forgets if-none-match later', { condition: 'forgotten' }, /took a second write/],
    [
      'whose upload URLs can copy',
      { unsignedHeaders: 'obeyed past every guard' },
      /copy other objects.*bucket policy/,
    ],
    ['that everybody can read', { reads: 'public' }, /everybody can read/],
    ['without strong ETags', { etags: 'weak' }, /no strong ETag/],
    ['that ignores ranges', { ranges: 'ignored' }, /ranges/],
    ['that ignores if-match', { ifMatch: 'ignored' }, /If-Match/],
    ['that keeps what was deleted', { deletes: 'ignored' }, /deleted object/],
  ];
  for (const [name, flaws, why] of cases) {
    test(name, async () => {
      const failure = await failureOf(flaws);
      expect(failure).toBeInstanceOf(EngineRefused);
      expect((failure as Error).message).toMatch(why);
      expect((failure as Error).message).not.toContain('\n');
    });
  }

  test('that does not know the credentials, and says what to check', async () => {
    standIn.secrets.clear();
    const failure = await failureOf({});
    expect(failure).toBeInstanceOf(EngineRefused);
    expect((failure as Error).message).toMatch(/InvalidAccessKeyId.*AWS_ACCESS_KEY_ID/);
  });
});

for (const [status, code, why] of [
  [501, 'NotImplemented', /refused an upload by its URL \(501 NotImplemented\): .*use one that does/],
  [403, 'AccessDenied', /refused an upload by its URL \(403 AccessDenied\): give the credentials/],
] as const) {
  test(`uploads that are answered ${status} are not asked for again`, async () => {
    const isUpload = (seen: SeenRequest): boolean =>
      seen.method === 'PUT' && seen.query.has('X-Amz-Signature');
    standIn.intruder = (seen, answer) => (isUpload(seen) ? errorAnswer(status, code) : answer());
    const failure = await failureOf({});
    expect(failure).toBeInstanceOf(EngineRefused);
    expect((failure as Error).message).toMatch(why);
  });
}

test('a certificate of an unknown authority is refused as such, and taken from one that AWS_CA_BUNDLE names', async () => {
  const authority = makeAuthority('an authority of a test');
  const { certificate: cert, key } = authority.issue([], ['127.0.0.1']);
  using server = Bun.serve({
    ...{ port: 0, hostname: '127.0.0.1', tls: { cert, key } },
    fetch: () => new Response('', { status: 501 }),
  });
  const { address } = configOf(standIn.bucket);
  const changes = { address: { ...address, endpoint: `https://127.0.0.1:${server.port}` } };
  const given = process.env.AWS_CA_BUNDLE;
  const folder = makeTempFolder('authority');
  const file = join(folder.path, 'authority.pem');
  try {
    delete process.env.AWS_CA_BUNDLE;
    const refused = await failureOf({}, changes);
    expect(refused).toBeInstanceOf(EngineRefused);
    expect(String(refused)).toMatch(/certificate.*is not accepted.*AWS_CA_BUNDLE/);
    process.env.AWS_CA_BUNDLE = file;
    expect(String(await failureOf({}, changes))).toContain(`${file}, which does not exist`);
    process.env.AWS_CA_BUNDLE = '/dev/zero';
    expect(String(await failureOf({}, changes))).toContain('/dev/zero is no file');
    process.env.AWS_CA_BUNDLE = file;
    await writeFile(file, authority.certificate);
    expect(String(await failureOf({}, changes))).toContain('(501)');
  } finally {
    if (given === undefined) delete process.env.AWS_CA_BUNDLE;
    else process.env.AWS_CA_BUNDLE = given;
    folder.remove();
  }
});

test('a bucket that does not exist is refused in words', async () => {
  standIn.intruder = () => errorAnswer(404, 'NoSuchBucket');
  const failure = await failureOf({});
  expect(failure).toBeInstanceOf(EngineRefused);
  expect((failure as Error).message).toMatch(/NoSuchBucket.*create it/);
});

describe('the probe accepts a store', () => {
  for (const takenStatus of [409, 412] as const) {
    test(`that answers ${takenStatus} to a second write, and leaves nothing in it but the marker`, async () => {
      await open({ takenStatus });
      expect([...standIn.objects.keys()]).toEqual(['holdfast-store']);
    });
  }

  test('that checks unsigned headers, with URLs that need no guards', async () => {
    expect(Object.keys(await headersOf(await open({}))).sort()).toEqual(['content-type', 'if-none-match']);
  });

  test('that obeys unsigned headers, with URLs that are guarded against them', async () => {
    const headers = await headersOf(await open({ unsignedHeaders: 'obeyed' }));
    expect(headers['x-amz-acl']).toBe('private');
    expect(headers['x-amz-copy-source-range']).toBe('bytes=0-0');
  });

  test('that answers 503 a few times first', async () => {
    let failures = 3;
    standIn.intruder = (_seen, answer) => (failures-- > 0 ? { status: 503 } : answer());
    await open({}, { limits: { retryPauseMs: 1, attemptsMax: 5 } });
  });
});

describe('the bucket belongs to its rows', () => {
  const identityOf = (storeId: string, isMarked: boolean, noteMarked = async () => {}) => ({
    identity: { storeId, isMarked, noteMarked },
  });

  test('its marker is written once, and noted in the rows', async () => {
    let noted = 0;
    const noteMarked = async () => {
      noted += 1;
    };
    await open({}, identityOf('one', false, noteMarked));
    await open({}, identityOf('one', true, noteMarked));
    expect([noted, standIn.objects.get('holdfast-store')?.bytes.toString()]).toEqual([1, 'one']);
  });

  test('other rows are refused, and so is a bucket that lost its marker', async () => {
    await open({}, identityOf('one', false));
    const stranger = await failureOf({}, identityOf('two', false));
    expect(stranger).toBeInstanceOf(EngineRefused);
    expect(String(stranger)).toMatch(/belongs to other rows/);
    standIn.objects.delete('holdfast-store');
    const lost = await failureOf({}, identityOf('one', true));
    expect(lost).toBeInstanceOf(EngineRefused);
    expect(String(lost)).toMatch(/lost its marker/);
    expect(standIn.objects.size).toBe(0);
  });

  test('a store that is refused is left without a marker, and its rows are free for another', async () => {
    let noted = 0;
    const noteMarked = async () => {
      noted += 1;
    };
    const refused = await failureOf({ condition: 'ignored' }, identityOf('one', false, noteMarked));
    expect(refused).toBeInstanceOf(EngineRefused);
    expect([noted, standIn.objects.has('holdfast-store')]).toEqual([0, false]);
  });

  test('a store that does not keep its marker is refused', async () => {
    let noted = 0;
    const noteMarked = async () => {
      noted += 1;
    };
    standIn.intruder = (seen, answer) =>
      seen.key === 'holdfast-store' && seen.method === 'PUT' ? { status: 200 } : answer();
    const failure = await failureOf({}, identityOf('one', false, noteMarked));
    expect(failure).toBeInstanceOf(EngineRefused);
    expect([noted, String(failure)]).toEqual([0, expect.stringMatching(/does not keep the marker/)]);
  });

  test('processes that start at once agree on one marker', async () => {
    await Promise.all(Array.from({ length: 4 }, () => open({}, identityOf('one', false))));
    expect(opened.length).toBe(4);
  });

  test('no error shows the signature of an upload URL', async () => {
    standIn.intruder = (seen, answer) =>
      seen.query.has('X-Amz-Signature')
        ? { ...answer(), breakOff: { afterBytes: -1, how: 'end' } }
        : answer();
    const failure = await failureOf({});
    expect(failure).toBeInstanceOf(StoreUnavailable);
    expect(Bun.inspect(failure, { depth: 10 })).not.toContain('X-Amz-Signature');
  });

  test('a store that cannot be reached is not refused, because it may come back', async () => {
    await standIn.close();
    const failure = await failureOf({});
    expect(failure).toBeInstanceOf(StoreUnavailable);
    standIn = await startStandIn();
  });
});

async function headersOf(store: ContentStore): Promise<Record<string, string>> {
  if (store.upload.kind !== 'direct') throw new Error('clients upload to S3 themselves');
  return (
    await store.upload.signUpload(SPACE, newGeneration(), urlLifeUntil(Date.now() + 60_000), NODE_MEDIA_TYPE)
  ).headers;
}
