/** Signature algorithms of capabilities (docs/api.md, Capabilities). */

/** Every `alg` a capability may be signed with; EdDSA means Ed25519. Never `none`, never a shared secret. */
export const ALGORITHMS = ['ES256', 'ES384', 'EdDSA', 'PS256', 'RS256'] as const;
export type Algorithm = (typeof ALGORITHMS)[number];

export function isAlgorithm(value: unknown): value is Algorithm {
  return (ALGORITHMS as readonly unknown[]).includes(value);
}
