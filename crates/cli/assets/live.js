// The page of a run that goes on: it asks whether there is anything new, fetches it, and hands it to
// the panels, where the reader is and with what was switched.

{
  const told = document.createElement("p");
  told.className = "live hint";
  told.setAttribute("role", "status");
  document.querySelector("header").append(told);
  const say = (text) => { if (told.textContent !== text) told.textContent = text; };
  const fetched = async (path) => {
    const answer = await fetch(path, { cache: "no-store" });
    if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
    return answer.json();
  };
  let shown = null, missed = 0;
  const look = async () => {
    let pause = 1000;
    try {
      const state = await fetched("/state.json");
      pause = Math.max(pause, state.interval_ms);
      const now = `${state.interval} ${state.ended}`;
      // Nobody looks at a page that is hidden; it catches up when it is shown again.
      if (now !== shown && (!document.hidden || state.ended)) {
        window.ioechoUpdate(await fetched("/data.json"));
        shown = now;
      }
      missed = 0;
      if (state.ended) return say("The run has ended: this is its report.");
      say("Live: the run goes on, and this page with it.");
    } catch {
      missed += 1;
      if (missed >= 3) say("The run does not answer any more: what is shown is what it last told.");
      if (missed >= 60) return;
    }
    setTimeout(look, pause);
  };
  say("Live");
  look();
}
