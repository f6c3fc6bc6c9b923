/** The console: begins with what must happen before anything is shown. */
import { render } from 'preact';
import 'uplot/dist/uPlot.min.css';
import './style/base.css';
import './style/views.css';
import { exchangeCode } from './exchange-code.ts';
import { showTheme, watchSystemTheme } from './parts/theme.ts';
import { takeSignInCode, watchRoute } from './route.ts';
import { Shell } from './shell.tsx';

const code = takeSignInCode();
showTheme();
watchSystemTheme();
watchRoute((each) => void exchangeCode(each));
if (code !== undefined) void exchangeCode(code);
const place = document.getElementById('console');
if (place !== null) render(<Shell />, place);
