/** Credentials: found where every AWS tool finds them, kept, and renewed in time. */

import { afterEach, beforeEach, describe, expect, test } from 'bun:test';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { MINUTE_MS } from '@holdfast/protocol';
import { makeTempFolder } from '../../../../test/support/temp-folder.ts';
import type { S3Address } from '../address.ts';
import { CredentialSource, type Credentials, openDefaultProvider } from './credentials.ts';
import { UploadUrls } from './request-signer.ts';

describe('the default provider', () => {
  const saved = { ...process.env };
  beforeEach(() => {
    for (const name of Object.keys(process.env)) if (name.startsWith('AWS_')) delete process.env[name];
    // Asking the network would depend on where the test runs.
    process.env.AWS_EC2_METADATA_DISABLED = 'true';
    process.env.AWS_CONFIG_FILE = '/nonexistent/config';
    process.env.AWS_SHARED_CREDENTIALS_FILE = '/nonexistent/credentials';
  });
  afterEach(() => {
    for (const name of Object.keys(process.env)) if (name.startsWith('AWS_')) delete process.env[name];
    Object.assign(process.env, saved);
  });

  test('finds variables', async () => {
    const provide = await openDefaultProvider();
    await expect(provide()).rejects.toThrow();
    Object.assign(process.env, {
      AWS_ACCESS_KEY_ID: 'id',
      AWS_SECRET_ACCESS_KEY: 'secret',
      AWS_SESSION_TOKEN: 'token',
    });
    expect(await provide()).toMatchObject({
      accessKeyId: 'id',
      secretAccessKey: 'secret',
      sessionToken: 'token',
    });
  });

  test('finds profiles in files, and reads a file that was replaced again', async () => {
    const folder = makeTempFolder('credentials');
    const file = join(folder.path, 'credentials');
    const write = (id: string) =>
      writeFile(
        file,
        `[default]\naws_access_key_id=no\naws_secret_access_key=no\n[mine]\naws_access_key_id=${id}\naws_secret_access_key=secret\n`,
      );
    Object.assign(process.env, { AWS_SHARED_CREDENTIALS_FILE: file, AWS_PROFILE: 'mine' });
    const provide = await openDefaultProvider();
    for (const id of ['one', 'two']) {
      await write(id);
      expect((await provide()).accessKeyId).toBe(id);
    }
    folder.remove();
  });
});

describe('CredentialSource', () => {
  let now = 0;
  let made = 0;
  let failure: Error | undefined;
  /** good for an hour each */
  const provide = async (): Promise<Credentials> => {
    if (failure !== undefined) throw failure;
    made += 1;
    return {
      accessKeyId: `id${made}`,
      secretAccessKey: `secret${made}`,
      expiration: new Date(now + 60 * MINUTE_MS),
    };
  };
  beforeEach(() => {
    now = 1_000_000;
    made = 0;
    failure = undefined;
  });

  test('asks once for any number of callers', async () => {
    const source = new CredentialSource(provide, () => now);
    const all = await Promise.all(Array.from({ length: 10 }, () => source.get()));
    expect([new Set(all).size, made]).toEqual([1, 1]);
    now += 54 * MINUTE_MS;
    expect((await source.get()).accessKeyId).toBe('id1');
    expect(made).toBe(1);
  });

  test('renews credentials in the background before they expire, and a failed renewal matters only at their end', async () => {
    const source = new CredentialSource(provide, () => now);
    await source.get();
    now += 56 * MINUTE_MS;
    failure = new Error('away');
    expect((await source.get()).accessKeyId).toBe('id1');
    await Bun.sleep(0);
    failure = undefined;
    expect((await source.get()).accessKeyId).toBe('id1');
    expect(made).toBe(1);
    now += MINUTE_MS;
    expect((await source.get()).accessKeyId).toBe('id1');
    await Bun.sleep(0);
    expect((await source.get()).accessKeyId).toBe('id2');
    now += 61 * MINUTE_MS;
    failure = new Error('away');
    await expect(source.get()).rejects.toThrow('away');
    failure = undefined;
    expect((await source.get()).accessKeyId).toBe('id3');
  });

  test('replaces credentials that a store refused, at most every few seconds', async () => {
    const source = new CredentialSource(provide, () => now);
    const first = await source.get();
    expect(await source.replace(first)).toBe(false);
    now += 11_000;
    expect(await Promise.all([source.replace(first), source.replace(first)])).toEqual([true, true]);
    expect(made).toBe(2);
    expect(await source.replace(first)).toBe(true);
    const second = await source.get();
    expect(await source.replace(second)).toBe(false);
  });
});

test('an upload URL ends no later than the credentials that sign it', async () => {
  const expiration = new Date(1_000_060_000);
  const credentials = { accessKeyId: 'id', secretAccessKey: 'secret', sessionToken: 'session', expiration };
  const source = new CredentialSource(
    async () => credentials,
    () => 1_000_000_000,
  );
  const address = { bucket: 'b', endpoint: 'http://store.test', region: 'r' } as S3Address;
  const life = { issuedAt: 1_000_000_000, expiresAt: 1_000_300_000 };
  const signed = await new UploadUrls(address, source).sign('key', life, 'a/b');
  expect([signed.expiresAt, new URL(signed.url).searchParams.get('X-Amz-Expires')]).toEqual([
    1_000_060_000,
    '60',
  ]);
  const sooner = await new UploadUrls(address, source).sign(
    'key',
    { ...life, expiresAt: 1_000_030_000 },
    'a/b',
  );
  expect(sooner.expiresAt).toBe(1_000_030_000);
});
