import { describe, expect, test } from 'bun:test';
import fc from 'fast-check';
import { beginScram, checkServer, proveScram } from './handshake.ts';

/** RFC 7677, section 3 */
const NONCE = 'rOprNGfwEbeRWgbNEkqO';
const CHALLENGE = 'r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096';
const PROOF =
  'c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=';
const SERVER = 'v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=';

test('the exchange of the RFC', () => {
  expect(beginScram(NONCE, 'none', 'user')).toBe('n,,n=user,r=rOprNGfwEbeRWgbNEkqO');
  const proof = proveScram('pencil', NONCE, CHALLENGE, 'none', 'user');
  expect(proof.message).toBe(PROOF);
  checkServer(proof, SERVER);
});

describe('a server', () => {
  const proof = proveScram('pencil', NONCE, CHALLENGE, 'none', 'user');

  test('that does not know the password is refused, whatever it says', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.base64String().map((text) => `v=${text}`),
        ),
        (answer) => {
          fc.pre(answer !== SERVER);
          expect(() => checkServer(proof, answer)).toThrow();
        },
      ),
    );
    for (const answer of ['', 'v=', 'e=invalid-proof', SERVER.slice(0, -8)]) {
      expect(() => checkServer(proof, answer)).toThrow();
    }
  });

  test('that answers with no challenge to our nonce is refused', () => {
    const bad = [
      '',
      CHALLENGE.replace('r=rOpr', 'r=other'),
      'r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096',
      CHALLENGE.replace('i=4096', 'i=0'),
      CHALLENGE.replace('i=4096', 'i=99999999'),
      CHALLENGE.replace('i=4096', 'i=x'),
      CHALLENGE.replace(/s=[^,]*/, 's='),
    ];
    for (const challenge of bad) expect(() => proveScram('pencil', NONCE, challenge)).toThrow();
    const property = fc.property(fc.string(), (challenge) => {
      expect(() => proveScram('pencil', NONCE, challenge)).toThrow();
    });
    fc.assert(property);
  });
});
