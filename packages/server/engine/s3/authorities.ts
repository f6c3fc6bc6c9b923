/** The authorities that may have signed the store's certificate, where AWS_CA_BUNDLE names them as for every AWS tool. */
import { codeOf } from '../../error-code.ts';
import { readPlainFile } from '../given-file.ts';
import { EngineRefused } from '../refused.ts';

/** PEM; undefined: those that the runtime trusts. Rejects with EngineRefused. */
export async function readAuthorities(variables = process.env): Promise<string | undefined> {
  const { AWS_CA_BUNDLE: bundle, NODE_EXTRA_CA_CERTS: extra } = variables;
  if (!bundle) return undefined;
  // The certificates of a request replace those that the runtime trusts, NODE_EXTRA_CA_CERTS included.
  const names = { AWS_CA_BUNDLE: bundle, ...(extra ? { NODE_EXTRA_CA_CERTS: extra } : {}) };
  return (await Promise.all(Object.entries(names).map(readCertificates))).join('\n');
}

async function readCertificates([name, path]: [string, string]): Promise<string> {
  const text = await readPlainFile(`${name} names a path that cannot be used:`, path).catch(
    (cause: unknown) => {
      const message = codeOf(cause) === undefined ? (cause as Error).message : undefined;
      throw new EngineRefused(message ?? `${name} names ${path}, which cannot be read: check its rights`, {
        cause,
      });
    },
  );
  if (text === undefined)
    throw new EngineRefused(`${name} names ${path}, which does not exist: check the path`);
  if (text.includes('-----BEGIN CERTIFICATE-----')) return text;
  throw new EngineRefused(`${name} names ${path}, which holds no certificate in PEM`);
}
