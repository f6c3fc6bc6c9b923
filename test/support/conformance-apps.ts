/** The Apps the conformance suite speaks as, registered in a database by the command line. */
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Identity } from '../../packages/conformance/index.ts';
import { runHoldfast } from './server-process.ts';
import { makeTempFolder } from './temp-folder.ts';

export interface ConformanceApps {
  readonly identity: Identity;
  readonly secondIdentity: Identity;
  readonly suspendedIdentity: Identity;
}

export async function registerConformanceApps(metadataUrl: string): Promise<ConformanceApps> {
  const folder = makeTempFolder('apps');
  const run = async (...args: string[]): Promise<void> => {
    const { exitCode, stderr } = await runHoldfast(['app', ...args, '--metadata', metadataUrl]);
    if (exitCode !== 0) throw new Error(`holdfast app ${args[0]} failed with ${exitCode}: ${stderr}`);
  };
  const register = async (appId: string): Promise<Identity> => {
    const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const names = { kid: randomUUID(), alg: 'ES256' };
    const publicKey = { ...pair.publicKey.export({ format: 'jwk' }), ...names, use: 'sig' };
    const identity: Identity = {
      appId,
      issuer: `https://issuer.example/${names.kid}`,
      audience: 'https://cas.example',
      key: { ...pair.privateKey.export({ format: 'jwk' }), ...names },
    };
    const keySet = join(folder.path, `${names.kid}.json`);
    writeFileSync(keySet, JSON.stringify({ keys: [publicKey] }));
    const { issuer, audience } = identity;
    await run('add', appId, '--issuer', issuer, '--audience', audience, '--jwks-file', keySet);
    return identity;
  };
  try {
    const identity = await register('main app/é');
    const secondIdentity = await register('second');
    const suspendedIdentity = await register('suspended');
    await run('suspend', 'suspended');
    return { identity, secondIdentity, suspendedIdentity };
  } finally {
    folder.remove();
  }
}
