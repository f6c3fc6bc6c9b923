import { describe, expect, test } from 'bun:test';
import { RotatingSigner } from './signer.ts';
import {
  formatSecrets,
  onlySecret,
  parseSecrets,
  planRotation,
  SECRET_NOTICE_MS,
  SECRET_OVERLAP_MS,
  SECRETS_MAX,
  type SigningSecrets,
} from './signing-secrets.ts';

const NOW = 1_800_000_000_000;
const bytes = (fill: number): Uint8Array => new Uint8Array(32).fill(fill);

function rotate(secrets: SigningSecrets, fill: number, now: number): SigningSecrets {
  const planned = planRotation(secrets, bytes(fill), now);
  if ('refused' in planned) throw new Error(planned.refused);
  return planned.secrets;
}

describe('a rotated secret', () => {
  test('verifies at once and signs after the notice, while the former one verifies for the overlap', () => {
    let now = NOW;
    const clock = { now: () => now };
    const before = onlySecret(bytes(1));
    const after = rotate(before, 2, NOW);
    const former = new RotatingSigner(before, clock);
    const fresh = new RotatingSigner(onlySecret(bytes(2)), clock);
    const signer = new RotatingSigner(before, clock);
    signer.take(after);
    const early = former.sign('cursor', 'x');
    const late = fresh.sign('cursor', 'x');
    const look = () => [
      signer.sign('cursor', 'x').toHex() === late.toHex() ? 'new' : 'former',
      signer.verify('cursor', 'x', early),
      signer.verify('cursor', 'x', late),
    ];
    expect(look()).toEqual(['former', true, true]);
    now = NOW + SECRET_NOTICE_MS - 1;
    expect(look()).toEqual(['former', true, true]);
    now += 1;
    expect(look()).toEqual(['new', true, true]);
    now += SECRET_OVERLAP_MS - 1;
    expect(look()).toEqual(['new', true, true]);
    now += 1;
    expect(look()).toEqual(['new', false, true]);
    signer.take(onlySecret(bytes(3)));
    expect(signer.verify('cursor', 'x', late)).toBe(false);
  });

  test('is not rotated again before it signs, nor while there are too many; secrets past their time are dropped', () => {
    let secrets = rotate(onlySecret(bytes(1)), 2, NOW);
    expect(planRotation(secrets, bytes(9), NOW + SECRET_NOTICE_MS - 1)).toEqual({
      refused: 'under way',
      againAt: NOW + SECRET_NOTICE_MS,
    });
    let now = NOW;
    while (secrets.length < SECRETS_MAX) {
      now += SECRET_NOTICE_MS;
      secrets = rotate(secrets, secrets.length + 1, now);
    }
    const againAt = NOW + SECRET_NOTICE_MS + SECRET_OVERLAP_MS;
    expect(planRotation(secrets, bytes(9), againAt - 1)).toEqual({ refused: 'too many', againAt });
    const next = rotate(secrets, 9, againAt);
    expect(next.map(({ secret }) => secret[0])).toEqual([2, 3, 4, 5, 6, 7, 8, 9]);
  });

  test('reads back as it was written, here or by an earlier version, and a damaged record is refused', () => {
    expect(parseSecrets(formatSecrets(onlySecret(bytes(1))))).toEqual(onlySecret(bytes(1)));
    const secrets = rotate(onlySecret(bytes(1)), 2, NOW);
    const kept = formatSecrets(secrets);
    expect(parseSecrets(kept)).toEqual(secrets);
    expect(parseSecrets(bytes(1))).toEqual(onlySecret(bytes(1)));
    const text = new TextDecoder().decode(kept);
    const unsummed = text.replace(/,"sha256":"[0-9a-f]{64}"/, '');
    expect(unsummed).not.toBe(text);
    expect(parseSecrets(new TextEncoder().encode(unsummed))).toEqual(secrets);
    const damaged = [
      text.slice(0, -3),
      text.replace('0101', '0102'),
      text.replace('sha256', 'sha257'),
      unsummed.replace('0101', '01'),
      unsummed.replace('"version":1', '"version":2'),
      unsummed.replace(`${NOW + SECRET_NOTICE_MS}`, '"soon"'),
      '{"version":1,"secrets":[]}',
      '{"version":1,"secrets":[null]}',
      '',
    ];
    for (const each of damaged) {
      expect([each, parseSecrets(new TextEncoder().encode(each))]).toEqual([each, undefined]);
    }
  });
});
