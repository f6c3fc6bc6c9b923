/** X.509 certificates as an authority issues them, made here, so that tests of TLS need no program for it. */
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';

/** PEM */
export interface ServerCertificate {
  readonly certificate: string;
  readonly key: string;
}

export interface TestAuthority {
  /** PEM; to trust it is to trust what it issues */
  readonly certificate: string;
  /** for these names and IPv4 addresses of a server */
  issue(names: readonly string[], addresses: readonly string[]): ServerCertificate;
}

const COMMON_NAME = [2, 5, 4, 3];
const ECDSA_WITH_SHA256 = [1, 2, 840, 10_045, 4, 3, 2];
const BASIC_CONSTRAINTS = [2, 5, 29, 19];
const SUBJECT_ALT_NAME = [2, 5, 29, 17];
/** 2000 to 2049: this form of time ends there */
const VALIDITY = ['000101000000Z', '491231235959Z'];

export function makeAuthority(name: string): TestAuthority {
  const { privateKey, publicKey } = makeKeys();
  const isAuthority = extension(BASIC_CONSTRAINTS, der(0x30, der(0x01, Buffer.from([0xff]))));
  const certify = (subject: string, key: KeyObject, extensions: readonly Buffer[]) => {
    const algorithm = der(0x30, oid(ECDSA_WITH_SHA256));
    const body = der(
      0x30,
      der(0xa0, der(0x02, Buffer.from([2]))),
      // The first bit of a number is its sign.
      der(0x02, Buffer.from([1]), randomBytes(8)),
      algorithm,
      nameOf(name),
      der(0x30, ...VALIDITY.map((time) => der(0x17, Buffer.from(time)))),
      nameOf(subject),
      key.export({ type: 'spki', format: 'der' }),
      der(0xa3, der(0x30, ...extensions)),
    );
    return pemOf(der(0x30, body, algorithm, bits(sign('sha256', body, privateKey))));
  };
  return {
    certificate: certify(name, publicKey, [isAuthority]),
    issue(names, addresses) {
      const keys = makeKeys();
      const hosts = extension(
        SUBJECT_ALT_NAME,
        der(
          0x30,
          ...names.map((each) => der(0x82, Buffer.from(each))),
          ...addresses.map((each) => der(0x87, Buffer.from(each.split('.').map(Number)))),
        ),
      );
      return {
        certificate: certify('a server of a test', keys.publicKey, [hosts]),
        key: keys.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
      };
    },
  };
}

const makeKeys = () => generateKeyPairSync('ec', { namedCurve: 'P-256' });

function pemOf(bytes: Buffer): string {
  const lines = bytes.toString('base64').match(/.{1,64}/g) ?? [];
  return ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n');
}

const nameOf = (name: string): Buffer =>
  der(0x30, der(0x31, der(0x30, oid(COMMON_NAME), der(0x0c, Buffer.from(name)))));

const extension = (name: readonly number[], value: Buffer): Buffer => der(0x30, oid(name), der(0x04, value));

const bits = (bytes: Buffer): Buffer => der(0x03, Buffer.from([0]), bytes);

function oid([first = 0, second = 0, ...others]: readonly number[]): Buffer {
  return der(0x06, Buffer.from([first * 40 + second, ...others.flatMap(sevens)]));
}

/** Seven bits a byte, all but the last marked. */
function sevens(number: number): number[] {
  const bytes = [number % 128];
  for (let left = Math.floor(number / 128); left > 0; left = Math.floor(left / 128)) {
    bytes.unshift((left % 128) + 128);
  }
  return bytes;
}

/** Tag, length, contents. */
function der(tag: number, ...contents: readonly Uint8Array[]): Buffer {
  const body = Buffer.concat(contents);
  const { length } = body;
  const short = length < 0x80 ? [length] : [0x81, length];
  return Buffer.concat([
    Buffer.from([tag, ...(length < 0x100 ? short : [0x82, length >> 8, length & 0xff])]),
    body,
  ]);
}
