/** OpenTelemetry traces: their code is loaded only if its variables ask for them. */
import { ConfigError } from '../errors.ts';
import type { Log } from '../log.ts';
import serverPackage from '../package.json' with { type: 'json' };
import type { Tracer } from '../traces/tracer.ts';
import { findUnknownVariables, listAsked } from './variables.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** undefined if traces are not configured. Rejects with ConfigError. */
export async function openTraces(env: Environment, log: Log, worker: number): Promise<Tracer | undefined> {
  if (!areWanted(env)) return undefined;
  const { openTracer } = await import('../traces/tracer.ts');
  return openTracer({
    ...{ env, worker, version: serverPackage.version },
    reportFailure: (reason) =>
      log.warn(
        { reason },
        'traces could not be sent: check the receiver that OTEL_EXPORTER_OTLP_ENDPOINT names',
      ),
  });
}

function areWanted(env: Environment): boolean {
  if (env.OTEL_SDK_DISABLED?.toLowerCase() === 'true' || env.OTEL_TRACES_EXPORTER === 'none') return false;
  return Boolean(env.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT || env.OTEL_EXPORTER_OTLP_ENDPOINT);
}

const VARIABLE_PREFIX = 'OTEL_';

/** Checks OpenTelemetry's variables as a server would: faults, and facts for an operator. */
export async function checkTraces(
  env: Environment,
): Promise<{ readonly problems: readonly string[]; readonly found: readonly string[] }> {
  if (!Object.keys(env).some((name) => name.startsWith(VARIABLE_PREFIX))) return { problems: [], found: [] };
  const { parseTraceSettings } = await import('../traces/trace-settings.ts');
  const any = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1' };
  const known = [
    ...listAsked(VARIABLE_PREFIX, areWanted),
    ...listAsked(VARIABLE_PREFIX, parseTraceSettings, any),
  ];
  // Variables of other programs are not mistakes.
  const found = findUnknownVariables(env, known, VARIABLE_PREFIX).map(({ name, meant }) => {
    const advice = meant === undefined ? '' : `: was ${meant} meant?`;
    return `the variable ${name} is not read${advice}`;
  });
  if (!areWanted(env)) {
    return {
      problems: [],
      found: ['no traces are sent: OTEL_EXPORTER_OTLP_ENDPOINT is not set, or they are off', ...found],
    };
  }
  try {
    const { origin, pathname } = new URL(parseTraceSettings(env).url);
    return { problems: [], found: [`traces are sent to ${origin}${pathname}`, ...found] };
  } catch (error) {
    if (error instanceof ConfigError) return { problems: [error.message], found };
    throw error;
  }
}
