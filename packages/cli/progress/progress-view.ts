/** The three ways a job is shown on stderr: live on a terminal, lines where it is piped, events with `--json`. */

import { LineView } from './line-view.ts';
import { LiveView } from './live-view.ts';
import type { ProgressView, ViewOutput } from './view.ts';
import { JsonView } from './view.ts';

export interface ViewOptions {
  readonly isJson: boolean;
  readonly isQuiet: boolean;
  readonly output: ViewOutput;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

export function chooseView({ isJson, isQuiet, output, environment }: ViewOptions): ProgressView {
  if (isJson) return new JsonView(output, isQuiet);
  if (isQuiet) return new LineView(output, true);
  const isCapable = output.isTTY && environment.TERM !== 'dumb';
  // https://no-color.org: any value but the empty one.
  return isCapable ? new LiveView(output, !environment.NO_COLOR) : new LineView(output, false);
}
