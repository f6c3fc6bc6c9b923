/** The variables that `serve` reads, recorded from its own parser, so that new ones are known automatically. */
import { countEdits } from '@holdfast/protocol';
import { parseServeConfig } from './config.ts';

const VARIABLE_PREFIX = 'HOLDFAST_';

type Environment = Readonly<Record<string, string | undefined>>;

/** Without flags and variables the parser reads every variable that it knows. */
export function listServeVariables(): readonly string[] {
  return listAsked(VARIABLE_PREFIX, (env) => parseServeConfig({}, env));
}

/** The variables of that prefix that `read` looks at; all are unset but those in `given`. */
export function listAsked(
  prefix: string,
  read: (env: Environment) => unknown,
  given: Environment = {},
): readonly string[] {
  const asked = new Set<string>();
  const recording = new Proxy<Environment>(
    {},
    {
      get: (_, name) => {
        if (typeof name !== 'string') return undefined;
        if (name.startsWith(prefix)) asked.add(name);
        return given[name];
      },
    },
  );
  read(recording);
  return [...asked].toSorted();
}

/** Variables that Kubernetes sets for a service called `holdfast` or `holdfast-…`, with the form of their values. */
const SERVICE_LINKS: readonly RegExp[] = [
  /_SERVICE_HOST=[\da-fA-F.:]+$/,
  /_SERVICE_PORT(?:_\w+)?=\d+$/,
  /_PORT=(?:tcp|udp|sctp):\/\/\S+$/,
  /_PORT_\d+_(?:TCP|UDP|SCTP)=(?:tcp|udp|sctp):\/\/\S+$/,
  /_PORT_\d+_(?:TCP|UDP|SCTP)_(?:PROTO=(?:tcp|udp|sctp)|PORT=\d+|ADDR=[\da-fA-F.:]+)$/,
];

const isServiceLink = (name: string, value: string | undefined): boolean =>
  SERVICE_LINKS.some((form) => form.test(`${name}=${value}`));

export function findUnknownVariables(
  env: Environment,
  known: readonly string[],
  prefix = VARIABLE_PREFIX,
): readonly { readonly name: string; readonly meant: string | undefined }[] {
  return Object.keys(env)
    .filter((name) => name.startsWith(prefix) && !known.includes(name) && !isServiceLink(name, env[name]))
    .toSorted()
    .map((name) => ({ name, meant: findNearest(name, known) }));
}

function findNearest(name: string, known: readonly string[]): string | undefined {
  const near = known.map((each) => ({ each, distance: countEdits(name, each) }));
  const [best] = near.toSorted((left, right) => left.distance - right.distance);
  return best !== undefined && best.distance <= 3 ? best.each : undefined;
}
