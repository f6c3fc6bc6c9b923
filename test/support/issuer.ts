/** An issuer of capabilities as an App's owner would run one; written without the product's code. */
import { generateKeyPairSync, type KeyObject, randomUUID, sign } from 'node:crypto';
import { writeFileSync } from 'node:fs';

const PERMISSIONS = [
  'cas:nodes:read',
  'cas:nodes:lease',
  'cas:usage:read',
  'cas:gc:execute',
  'cas:root-refs:read',
  'cas:root-refs:update',
] as const;

export interface Issuer {
  readonly issuer: string;
  readonly audience: string;
  /** an ES256 capability for everything in `spaceId`; `claims` replace or add */
  token(spaceId: string, claims?: Record<string, unknown>): string;
  writeKeySet(path: string): void;
}

const TOKEN_SECONDS = 3600;

export function makeIssuer(name = 'https://issuer.test'): Issuer {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const kid = randomUUID();
  const audience = 'holdfast-test';
  return {
    issuer: name,
    audience,
    token(spaceId, claims = {}) {
      const iat = Math.floor(Date.now() / 1000);
      const payload = {
        ver: 1,
        iss: name,
        aud: audience,
        iat,
        exp: iat + TOKEN_SECONDS,
        spaceId,
        permissions: PERMISSIONS,
        refDomain: 'test',
        ...claims,
      };
      return signToken(privateKey, { alg: 'ES256', kid, typ: 'JWT' }, payload);
    },
    writeKeySet(path) {
      const key = { ...publicKey.export({ format: 'jwk' }), kid, alg: 'ES256', use: 'sig' };
      writeFileSync(path, JSON.stringify({ keys: [key] }));
    },
  };
}

function signToken(key: KeyObject, header: object, payload: object): string {
  const encode = (part: object): string => Buffer.from(JSON.stringify(part)).toString('base64url');
  const input = `${encode(header)}.${encode(payload)}`;
  const signature = sign('sha256', Buffer.from(input), { key, dsaEncoding: 'ieee-p1363' });
  return `${input}.${signature.toString('base64url')}`;
}
