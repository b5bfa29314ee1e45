import { mount } from "svelte";
import App from "./App.svelte";
import "./page.css";
import "./state/theme.svelte";

mount(App, { target: document.getElementById("page") as HTMLElement });
