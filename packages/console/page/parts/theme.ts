/** Light, dark, or as the system has it. The choice is the only thing that this page keeps in the browser. */
import { signal } from '@preact/signals';

export const THEMES = ['system', 'light', 'dark'] as const;
export type Theme = (typeof THEMES)[number];

const KEY = 'holdfast-console-theme';

function readTheme(): Theme {
  try {
    return THEMES.find((theme) => theme === localStorage.getItem(KEY)) ?? 'system';
  } catch {
    // A browser may forbid storage: then the choice lasts as long as the page.
    return 'system';
  }
}

export const theme = signal<Theme>(readTheme());
/** counts changes of what is shown, for what is drawn and not styled */
export const themeChanges = signal(0);

export function showTheme(): void {
  document.documentElement.style.colorScheme = theme.value === 'system' ? 'light dark' : theme.value;
  themeChanges.value += 1;
}

export function chooseTheme(chosen: Theme): void {
  theme.value = chosen;
  try {
    localStorage.setItem(KEY, chosen);
  } catch {
    // It lasts as long as the page.
  }
  showTheme();
}

export function watchSystemTheme(): void {
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    themeChanges.value += 1;
  });
}
