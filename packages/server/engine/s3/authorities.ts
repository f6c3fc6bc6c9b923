/** The authorities that may have signed the store's certificate, where AWS_CA_BUNDLE names them as for every AWS tool. */
import { readFile } from 'node:fs/promises';
import { EngineRefused } from '../refused.ts';

/** PEM; undefined: those that the runtime trusts. Rejects with EngineRefused. */
export async function readAuthorities(variables = process.env): Promise<string | undefined> {
  const { AWS_CA_BUNDLE: bundle, NODE_EXTRA_CA_CERTS: extra } = variables;
  if (!bundle) return undefined;
  // What is given to a request takes the place of what the runtime trusts, NODE_EXTRA_CA_CERTS too.
  const names = { AWS_CA_BUNDLE: bundle, ...(extra ? { NODE_EXTRA_CA_CERTS: extra } : {}) };
  return (await Promise.all(Object.entries(names).map(readCertificates))).join('\n');
}

async function readCertificates([name, file]: [string, string]): Promise<string> {
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw new EngineRefused(`${name} names ${file}, which cannot be read`, { cause });
  });
  if (text.includes('-----BEGIN CERTIFICATE-----')) return text;
  throw new EngineRefused(`${name} names ${file}, which holds no certificate in PEM`);
}
