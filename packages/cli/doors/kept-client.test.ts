import { expect, test } from 'bun:test';
import { type Client, FILE_CONTENT_TYPE } from '@holdfast/client/internal';
import { createKeptClient } from './kept-client.ts';

const CONTENT = new TextEncoder().encode('value');

async function putInto(filesBytesMax: number) {
  const hash = '0a'.repeat(32);
  const space = { bulk: {}, putNode: async () => ({ hash }) } as unknown as Client;
  const client = createKeptClient(space, 0, filesBytesMax);
  await client.putNode({ contentType: FILE_CONTENT_TYPE, content: CONTENT });
  return { client, hash };
}

test('a small file that was put is kept, and is not given for one that a folder says is of another length', async () => {
  const { client, hash } = await putInto(10_000);
  expect(client.findFile({ hash, bytes: CONTENT.length })).toEqual(CONTENT);
  expect(client.findFile({ hash, bytes: CONTENT.length + 1 })).toBeUndefined();
});

test('no file is kept without a bound for files', async () => {
  const { client, hash } = await putInto(0);
  expect(client.findFile({ hash, bytes: CONTENT.length })).toBeUndefined();
});
